-- What does the side table say of each bid's auction?
SELECT bid.auction, bid.bidder, bid.price, bid."dateTime", side_input.value
FROM bid JOIN side_input ON bid.auction % 10000 = side_input.key
