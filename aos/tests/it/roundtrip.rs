//! What is written is read back, and nothing that is read brings the reader down.

use aos::message::{Decision, DecisionResponse, Limits, Request, Response, ResponseBody};
use proptest::prelude::*;

use crate::generate::requests;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What is done is the params without the context, whatever the method and the wording.
    #[test]
    fn an_act_is_the_params_without_the_context(request in requests()) {
        let mut params = request.call.to_params();
        params.as_object_mut().unwrap().shift_remove("context");
        prop_assert_eq!(request.call.to_params_without_context().to_string(), params.to_string());
    }

    #[test]
    fn a_request_is_read_back_as_it_was(request in requests()) {
        prop_assert_eq!(Request::from_slice(&request.to_vec(), Limits::default()), Ok(request));
    }

    #[test]
    fn a_response_is_read_back_as_it_was(request in requests(), message: String, codes: Vec<String>) {
        let decision = Decision::Modify(Box::new(request));
        let answer = DecisionResponse { reason_codes: codes, ..DecisionResponse::new(decision, message) };
        let response = Response { id: Some("q".into()), body: ResponseBody::Decision(answer) };
        prop_assert_eq!(Response::from_slice(&response.to_vec(), Limits::default()), Ok(response));
    }

    #[test]
    fn changed_bytes_are_read_or_refused(
        request in requests(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: prop::sample::Index,
    ) {
        let mut bytes = request.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = Response::from_slice(&bytes, Limits::default());
        if let Err(rejection) = Request::from_slice(&bytes, Limits::default()) {
            let answer = Response::from_slice(&rejection.to_response().to_vec(), Limits::default());
            prop_assert!(matches!(answer.map(|a| a.body), Ok(ResponseBody::Error(_))));
        }
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Request::from_slice(&bytes, Limits::default()).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = Request::from_slice(&bytes, Limits::default());
        let _ = Response::from_slice(&bytes, Limits::default());
    }
}
