//! The only I/O of driftless: GitHub, AWS, Kubernetes, and their local stand-ins.
