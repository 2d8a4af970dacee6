-- How many tokens some wallets have a position in. Through the projection by_wallet_traded.
SELECT wallet, uniqExact(mint) AS position_count
FROM positions
WHERE wallet IN {wallets:Array(String)}
GROUP BY wallet
