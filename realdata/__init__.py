"""Real data and models for benchmarks, experiments and tests; never installed with credex."""
