"""One fit for each outcome column, over second moments that all of them share."""
