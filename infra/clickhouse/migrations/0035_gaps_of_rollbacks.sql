-- A slot that was settled as confirmed and then rolled back stands here as well, with those whose
-- figures have what never happened; and slots that one partition of an agent group alone lacks.
ALTER TABLE gaps
    ADD COLUMN IF NOT EXISTS wallets Array(String)
    COMMENT 'whose figures have what was rolled back; empty for slots that could not be had' CODEC(ZSTD(3));
ALTER TABLE gaps
    ADD COLUMN IF NOT EXISTS lost_by LowCardinality(String)
    COMMENT 'the agent group and partition that alone lacks them, as the log no longer had them; empty: all do' CODEC(ZSTD(3)),
    MODIFY ORDER BY (first_slot, last_slot, lost_by);
ALTER TABLE gaps MODIFY COMMENT 'Slots that could neither be streamed nor fetched, slots that were rolled back after they were settled, and slots that an agent group lost';
