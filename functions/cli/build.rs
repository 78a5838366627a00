//! Links the command at a fixed address on Linux. A position-independent program of this size has
//! its loader write some 126,000 pointers before `main`, which costs 2 ms and 700 page faults at
//! every start, more than rendering most kustomizations and charts.
//!
//! With musl, `-C relocation-model=static` does this (`infra/container/Dockerfile`): a flag for the
//! linker alone would contradict the `-static-pie` that Rust gives it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bin=driftless=-no-pie");
    }
}
