//! The command `a2s`; everything it does is in the library beside it.

use std::process::ExitCode;

// A run makes and drops many small values on several threads: a sixth of the time of a step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    a2s_cli::main()
}
