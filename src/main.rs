//! The command `a2s`; its library does all the work.

use std::process::ExitCode;

// A run makes and drops many small values on several threads: a sixth of the time of a step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    a2s_cli::main()
}
