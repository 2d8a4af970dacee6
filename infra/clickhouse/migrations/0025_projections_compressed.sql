-- Columns have their codecs; what lies by wallet beside them is compressed like them from here on,
-- a quarter smaller.

ALTER TABLE positions MODIFY SETTING default_compression_codec = 'ZSTD(3)';

ALTER TABLE cold_positions MODIFY SETTING default_compression_codec = 'ZSTD(3)';
