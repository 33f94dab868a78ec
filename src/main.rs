//! The command `a2s`; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    a2s_cli::main()
}
