-- `gaps` also records slots that an agent group could not read.
ALTER TABLE gaps
    COMMENT COLUMN IF EXISTS lost_by
    'the agent group and partition that alone lacks them, as the log no longer had them or they could not be read; empty: all do';
