//! kustomize build, natively: a file tree and a path in, objects out.
