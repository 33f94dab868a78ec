//! Everything that a start writes, in one transaction.

use super::*;

/// A version of the capability, with the checksum of some text.
pub(super) fn pin(text: &str) -> CapabilityRef {
    CapabilityRef {
        name: CapabilityName::new("Dogs").unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum: Digest::of_bytes(text.as_bytes()),
    }
}

fn documents(texts: &[&str]) -> BTreeMap<Digest, Arc<[u8]>> {
    let document = |text: &&str| (Digest::of_bytes(text.as_bytes()), text.as_bytes().into());
    texts.iter().map(document).collect()
}

async fn is_recorded(fixture: &Fixture, run: u128) -> bool {
    fixture.store.read_run(Uuid::from_u128(run)).await.unwrap().is_some()
}

/// Makes the database refuse events of a type.
async fn refuse_events(fixture: &Fixture, kind: &str) {
    let mut behind = Behind::to(&fixture.database).await;
    behind
        .change(&format!(
            "CREATE TRIGGER refused BEFORE INSERT ON event WHEN NEW.type = '{kind}'
             BEGIN SELECT RAISE(ABORT, 'refused'); END"
        ))
        .await;
    behind.close().await;
}

fn is_file(fixture: &Fixture) -> bool {
    matches!(fixture.database, ExecutorDatabase::File(_))
}

#[tokio::test]
async fn a_start_remembers_its_checksums() {
    // Both have the same database, which the first one deletes.
    for fixture in &Fixture::each().await {
        let pin = CapabilityRef {
            version: if fixture.is_memory() { "2.0.0" } else { "1.0.0" }.parse().unwrap(),
            ..pin("a")
        };
        let unknown = vec![pin.clone()];
        let new = NewRun { unknown: unknown.clone(), ..new_run(1) };
        assert_eq!(
            fixture.store.create_durably(new, &fixture.trust).await.unwrap(),
            CreateResult::New
        );
        assert_eq!(fixture.trust.check(&unknown).await.unwrap(), []);
        // Another start looked before that, and saw the same checksum.
        let new = NewRun { unknown, ..new_run(2) };
        assert_eq!(
            fixture.store.create_durably(new, &fixture.trust).await.unwrap(),
            CreateResult::New
        );
        // A third one saw another checksum.
        let other = CapabilityRef { checksum: Digest::of_bytes(b"b"), ..pin };
        let new = NewRun { unknown: vec![other], key: Some("key".to_owned()), ..new_run(3) };
        let refused = fixture.store.create_durably(new, &fixture.trust).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::ChecksumChanged);
        assert!(!is_recorded(fixture, 3).await);
        assert_eq!(fixture.store.find_by_key("key").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_start_that_is_lost_remembers_no_checksum() {
    let fixture = Fixture::new().await;
    if !is_file(&fixture) {
        return;
    }
    refuse_events(&fixture, "run_started").await;
    let new = NewRun { unknown: vec![pin("a")], ..new_run(1) };
    fixture.store.create_durably(new, &fixture.trust).await.unwrap_err();
    assert!(!is_recorded(&fixture, 1).await);
    assert_eq!(fixture.trust.check(&[pin("a")]).await.unwrap(), [pin("a")]);
}

#[tokio::test]
async fn documents_are_stored_when_one_is_missing() {
    for fixture in Fixture::each().await {
        for (run, texts) in [(1, &["a"][..]), (2, &["a", "b"]), (3, &["b", "a"]), (4, &[])] {
            let new = NewRun { documents: documents(texts), ..new_run(run) };
            assert_eq!(
                fixture.store.create_durably(new, &fixture.trust).await.unwrap(),
                CreateResult::New
            );
            let expected = documents(texts);
            let digests: Vec<_> = expected.keys().copied().collect();
            let read = fixture.store.read_documents(&digests).await.unwrap().into_iter();
            assert_eq!(
                read.map(|(key, text)| (key, text.into())).collect::<BTreeMap<_, _>>(),
                expected
            );
        }
    }
}

#[tokio::test]
async fn sealed_inputs_are_kept_until_the_run_is_over() {
    for fixture in Fixture::each().await {
        let sealed = || Ciphertext { key_id: "k".to_owned(), nonce: vec![0], bytes: vec![1] };
        let new = NewRun { sealed: Some(sealed()), ..new_run(1) };
        assert_eq!(
            fixture.store.create_durably(new, &fixture.trust).await.unwrap(),
            CreateResult::New
        );
        let kept = async || fixture.store.read_sealed(Uuid::from_u128(1)).await.unwrap();
        assert_eq!(kept().await[&1].bytes, [1]);
        // Even an end that has sealed values itself leaves none.
        let end = event(1, 2, finished(RunStatus::Failed));
        let besides = SealedChanges { sealed: Some(sealed()), obsolete: None };
        let nobody = Arc::new(watch::Sender::new(0));
        fixture.store.append(end, LeaseEpoch::FIRST, besides, nobody).await.unwrap();
        assert!(kept().await.is_empty());
    }
}

#[tokio::test]
async fn a_start_with_a_used_plan_leaves_nothing() {
    for fixture in Fixture::each().await {
        let plan = Some(Digest::of_bytes(b"none"));
        let sealed = Some(Ciphertext { key_id: "k".to_owned(), nonce: vec![0], bytes: vec![1] });
        let new = NewRun { plan, sealed, ..new_run(1) };
        let refused = fixture.store.create_durably(new, &fixture.trust).await.unwrap();
        assert_eq!(refused, CreateResult::PlanGone);
        assert!(!is_recorded(&fixture, 1).await);
        assert_eq!(fixture.store.read_events(Uuid::from_u128(1), 0, 9).await.unwrap(), []);
        assert!(fixture.store.read_sealed(Uuid::from_u128(1)).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn events_may_be_written_before_the_start_is_durable() {
    for fixture in Fixture::each().await {
        let (created, commit) = fixture.store.create(new_run(1), &fixture.trust).await.unwrap();
        assert_eq!(created, CreateResult::New);
        let committed = Arc::new(watch::Sender::new(1));
        let later = || (LeaseEpoch::FIRST, SealedChanges::default(), Arc::clone(&committed));
        let (epoch, besides, sender) = later();
        fixture.store.append_later(event(1, 2, step()), epoch, besides, sender);
        fixture.append(1, 3, finished(RunStatus::Succeeded)).await.unwrap();
        commit.wait().await.unwrap();
        let events = fixture.store.read_events(Uuid::from_u128(1), 0, 9).await.unwrap();
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    }
}

/// Only a file decides before it commits.
#[tokio::test]
async fn events_of_a_start_that_is_lost_fail() {
    let fixture = Fixture::new().await;
    if !is_file(&fixture) {
        return;
    }
    refuse_events(&fixture, "step_started").await;
    fixture.create(1, None).await;
    // Sent before the writer wakes: one transaction, which fails after the start was decided.
    let (started, other) = tokio::join!(
        fixture.store.create(new_run(2), &fixture.trust),
        fixture.append(1, 2, step()),
    );
    let (created, commit) = started.unwrap();
    assert_eq!((created, other), (CreateResult::New, Err(ErrorKind::Store)));
    assert_eq!(commit.wait().await.unwrap_err().kind, ErrorKind::Store);
    assert!(!is_recorded(&fixture, 2).await);
    let late = fixture.append(2, 2, finished(RunStatus::Succeeded)).await;
    assert_eq!(late, Err(ErrorKind::LeaseLost));
    // The next start is not affected.
    assert_eq!(fixture.create(3, None).await, CreateResult::New);
}
