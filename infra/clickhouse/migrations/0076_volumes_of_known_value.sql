-- A trade of unknown value is in no volume: the comments said "value of all trades".
ALTER TABLE candles COMMENT COLUMN IF EXISTS volume_lamports 'value of its trades in lamports; trades of unknown value are left out';
ALTER TABLE candles COMMENT COLUMN IF EXISTS volume_usd_micros 'value of its trades in millionths of a dollar; trades of unknown value are left out';
