-- Which bid won each auction?
-- Bids of one price and time are ordered by bidder, then by extra.
SELECT
    auction.id, auction."itemName", auction.description, auction."initialBid", auction.reserve,
    auction."dateTime", auction.expires, auction.seller, auction.category, auction.extra,
    bid.auction, bid.bidder, bid.price, bid."dateTime" AS "bid_dateTime", bid.extra AS bid_extra
FROM auction JOIN bid
    ON auction.id = bid.auction
    AND bid."dateTime" BETWEEN auction."dateTime" AND auction.expires
QUALIFY row_number() OVER (
    PARTITION BY auction.id
    ORDER BY bid.price DESC, bid."dateTime", bid.bidder, bid.extra
) <= 1
