-- Which bids were made by people who sell themselves, and what do they sell?
SELECT
    bid.bidder, bid.price, bid.channel, bid.url, bid.extra AS bid_extra,
    person.id AS person_id, person.name, person."emailAddress", person."creditCard", person.city, person.state,
    person.extra AS person_extra,
    auction."itemName", auction.description, auction."initialBid", auction.reserve,
    auction."dateTime" AS "auction_dateTime", auction.expires, auction.seller, auction.category,
    auction.extra AS auction_extra
FROM bid
JOIN person ON person.id = bid.bidder
JOIN auction ON auction.seller = bid.bidder
