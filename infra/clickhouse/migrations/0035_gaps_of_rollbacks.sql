-- A slot that was settled as confirmed and then rolled back stands here as well, with those whose
-- figures have what never happened.
ALTER TABLE gaps
    ADD COLUMN IF NOT EXISTS wallets Array(String)
    COMMENT 'whose figures have what was rolled back; empty for slots that could not be had' CODEC(ZSTD(3));
ALTER TABLE gaps MODIFY COMMENT 'Slots that could neither be streamed nor fetched, and slots that were rolled back after they were settled';
