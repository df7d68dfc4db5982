"""The command line ``credex``: explain, forecast, verify, report, aggregate, serve, demo."""
