-- Who was sandwiched most: one wallet traded before and behind them in the same pool and slot.
-- hours = 24: how many hours up to the last slot
SELECT
    victim,
    count() AS times,
    uniqExact(attacker) AS attackers,
    uniqExact(mint) AS tokens,
    round(sum(victim_usd), 2) AS traded_usd,
    round(sum(victim_loss_usd), 2) AS lost_usd_at_least
FROM sandwiches
WHERE block_time >= (SELECT max(block_time) FROM slots) - toIntervalHour({hours:UInt16})
GROUP BY victim
ORDER BY lost_usd_at_least DESC, victim
LIMIT 20
