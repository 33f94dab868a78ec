//! Who may ask a guardian that stands alone, and not answer for a person.

use std::collections::BTreeSet;

use a2s::{Caller, Identify, Later, Secret, Subject};

use crate::failure::Failure;

/// Knows the one token that opens the protocol of a guardian, and nothing of the owner's.
#[derive(Debug)]
pub(super) struct Asking {
    token: Secret,
    caller: Caller,
}

impl Asking {
    /// # Errors
    /// When it is the `owner`'s token: whoever asks could approve what they ask for.
    pub(super) fn new(token: Secret, owner: &str) -> Result<Self, Failure> {
        if token.matches(owner) {
            let message = "the token of --guardian-token is the owner's";
            return Err(Failure::argument(message).with_hint(
                "Choose another one for those who ask: the owner's approves what waits for a person.",
            ));
        }
        let subject = Subject::new("asking").map_err(Failure::argument)?;
        Ok(Self { token, caller: Caller { subject, end_user: None, scopes: BTreeSet::new() } })
    }
}

impl Identify for Asking {
    fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>> {
        let known = self.token.matches(token.reveal()).then(|| self.caller.clone());
        Box::pin(async move { Ok(known) })
    }
}

#[cfg(test)]
mod tests {
    use a2s::{CallerHeaders, Door, Scope};

    use super::*;

    fn shown(authorization: &'static [u8]) -> CallerHeaders<'static> {
        CallerHeaders::read(|name| (name == "authorization").then_some(authorization))
    }

    #[tokio::test]
    async fn whoever_asks_is_let_in_and_may_do_nothing_else() {
        let asking = Asking::new(Secret::new("ask"), "own").unwrap();
        let door = Door::new(Some(Secret::new("own"))).with(std::sync::Arc::new(asking));
        let caller = door.identify(None, shown(b"Bearer ask")).await.unwrap();
        assert!(Scope::ALL.iter().all(|scope| !caller.may(*scope)), "{caller:?}");
        assert!(door.identify(None, shown(b"Bearer other")).await.is_err());
        assert!(door.identify(None, shown(b"Bearer own")).await.unwrap().may(Scope::Admin));
    }

    #[test]
    fn the_owners_token_is_no_token_for_asking() {
        let refused = Asking::new(Secret::new("own"), "own").unwrap_err();
        assert!(format!("{refused:?}").contains("the owner's"), "{refused:?}");
    }
}
