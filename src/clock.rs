//! The only place that reads the clock and draws random bytes.

use jiff::Timestamp;

/// The time now.
#[expect(clippy::disallowed_methods, reason = "this is the clock that everyone else is given")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness there are no safe tokens and no unique ids: the process ends.
    #[expect(clippy::expect_used, reason = "the operating system always has randomness")]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Returns a token that cannot be guessed: 64 hexadecimal digits.
pub(crate) fn random_token() -> String {
    random_bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The clock and the randomness of the system, for the executor.
#[derive(Debug)]
pub(crate) struct SystemClockAndIds;

impl executor::Clock for SystemClockAndIds {
    fn now(&self) -> Timestamp {
        now()
    }
}

impl executor::RandomSource for SystemClockAndIds {
    fn random_bytes(&self) -> [u8; 16] {
        random_bytes()
    }
}
