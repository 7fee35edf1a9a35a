-- Of the calls whose back-off is over, the best ones are found as those of all others are.
CREATE INDEX queue_back_off_ranked ON queue (rank DESC, op, entity, not_before) WHERE not_before > 0;
