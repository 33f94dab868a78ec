//! Any text as a policy, or as cases: read, or refused with a reason.

#![no_main]

use guardian::Policy;
use guardian::policy_tests::PolicyTestSuite;
use libfuzzer_sys::fuzz_target;

const CASES: &str = "
cases:
  - {name: a, request: {tool: b, inputs: {city: Paris, n: 1}, user: a@b.example, host: c.example}, expect: allow}
  - {name: b, request: {hook: toolCallResult, outputs: ['a@b.example', {x: 1}]}, expect: allow}
";

fuzz_target!(|text: &str| {
    match Policy::parse(text) {
        Ok(policy) => {
            let cases = PolicyTestSuite::parse(CASES).expect("cases");
            assert_eq!(cases.run(&policy, None).count(), 2);
        }
        Err(faults) => assert!(!faults.0.is_empty()),
    }
    match PolicyTestSuite::parse(text) {
        Ok(cases) => drop(cases.run(&Policy::allow_all(), None).take(3).count()),
        Err(faults) => assert!(!faults.0.is_empty()),
    }
});
