//! The one decision about who may see and touch a run, a plan or remembered values.

use a2s_api::{Caller, Principal, TokenScope};

/// Returns true when a caller may see and change the data of a principal: their own, and with the scope
/// `admin` everything. When it is false, handlers respond 404, as for an id that does not exist.
pub(crate) fn may_touch(caller: &Caller, owner: &Principal) -> bool {
    caller.has_scope(TokenScope::Admin) || caller.principal() == *owner
}

#[cfg(test)]
mod tests {
    use a2s_api::{EndUser, TokenSubject};

    use super::*;

    fn caller(token: &str, end_user: Option<&str>, scopes: &[TokenScope]) -> Caller {
        let end_user = end_user.map(|name| EndUser::new(name).unwrap());
        let scopes = scopes.iter().copied().collect();
        Caller { subject: TokenSubject::new(token).unwrap(), end_user, scopes }
    }

    #[test]
    fn a_caller_touches_their_own_and_an_administrator_everything() {
        let check = |caller: &Caller, owner: &str, expected: bool| {
            assert_eq!(may_touch(caller, &owner.parse().unwrap()), expected, "{caller:?} {owner}");
        };
        let ci = caller("ci", None, &[TokenScope::Execute]);
        check(&ci, "ci", true);
        for other in ["ci/ann", "owner", "cii", "c"] {
            check(&ci, other, false);
        }
        let ann = caller("ci", Some("ann"), &[TokenScope::Execute, TokenScope::Delegate]);
        check(&ann, "ci/ann", true);
        for other in ["ci", "ann", "ci/anna", "other/ann", "owner"] {
            check(&ann, other, false);
        }
        for all in [Caller::owner(), caller("boss", None, &[TokenScope::Admin])] {
            for owner in ["ci", "ci/ann", "owner", "boss"] {
                check(&all, owner, true);
            }
        }
    }
}
