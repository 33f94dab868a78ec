//! Any bytes as a message: there is always a correct answer, no allow for what is no message, and an
//! answer in proportion to the message. `just fuzz-guardian` bounds the memory.

#![no_main]

use std::sync::LazyLock;

use aos::message::{Decision, Limits, Request, Response, ResponseBody};
use guardian::Policy;
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let policy = Policy::parse(
        "
version: 1
default: allow
rules:
  - {id: a, tool: 'b*', when: \"has(inputs.city) && inputs.city.contains('a')\", decision: deny}
  - {id: b, decision: modify, modify: {set: {'x.y[*].z': 1}, remove: ['body.a'], redact: [{pattern: email}, {pattern: card}, {pattern: key}]}}
  - {id: c, on: toolCallRequest, limit: {spend: 'has(inputs.n) ? inputs.n : 1', most: 50}, decision: deny}
  - {id: d, host: '*.example', user: '*', decision: approve}
  - {id: e, user: mallory, decision: deny}
  - {id: f, when: \"caller.id == 'desk'\", limit: {calls: 1, per: user}, on: toolCallRequest, decision: deny}
",
    );
    policy.expect("a policy")
});

fuzz_target!(|bytes: &[u8]| {
    // Nobody who answers can bring the reader of answers down.
    let _ = Response::from_slice(bytes, Limits::default());
    let answer = match Request::from_slice(bytes, Limits::default()) {
        Err(rejection) => {
            let answer = rejection.to_response();
            assert!(matches!(answer.body, ResponseBody::Error(_)));
            answer
        }
        Ok(request) => {
            let again = Request::from_slice(&request.to_vec(), Limits::default());
            assert_eq!(again.as_ref(), Ok(&request), "what is written is read back");
            let ruling = POLICY.decide(&request);
            if let Decision::Modify(modified) = &ruling.response.decision {
                let taken = request.with_modification((**modified).clone());
                assert_eq!(taken.as_ref(), Ok(&**modified), "the agent takes over what is changed");
            }
            Response { id: Some(request.id), body: ResponseBody::Decision(ruling.response) }
        }
    };
    assert!(answer.to_vec().len() <= (64 << 10) + 64 * bytes.len(), "an answer in proportion");
    // A change can make a message longer than the reader takes by default.
    let limits = Limits { bytes: usize::MAX, depth: 128 };
    assert_eq!(Response::from_slice(&answer.to_vec(), limits).as_ref(), Ok(&answer));
});
