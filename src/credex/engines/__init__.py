"""Engines: portfolios explained on one machine, on dask, on Ray or on Spark.

Each adapter hands the same function (`credex.portfolio.Work`) to an engine that the user already
runs, so the numbers are the same on all of them, however the rows are divided. Import the one you
need: ``from credex.engines import spark``.
"""
