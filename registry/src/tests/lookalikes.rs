//! Names that look alike, as the database finds them.

use std::collections::BTreeMap;

use a2s::{CapabilityName, Complexity, Digest};
use a2s_api::{Caller, TokenSubject};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sqlx::migrate::Migrator;

use super::database::{Behind, Folder};
use crate::store::dependency_rows::RelationRows;
use crate::store::lifecycle::AuditActor;
use crate::store::{self, NewVersion, PublicationResult, RegistryStore};

fn first_version(name: &CapabilityName) -> NewVersion {
    NewVersion {
        name: name.clone(),
        version: "1.0.0".parse().unwrap(),
        digest: Digest::of_bytes(name.as_str().as_bytes()),
        source: String::new(),
        complexity: Complexity::Low,
        permissions: 0,
        relations: RelationRows::default(),
    }
}

fn publisher(name: &str) -> AuditActor {
    let owner = AuditActor::from_caller(&Caller::owner(), Timestamp::UNIX_EPOCH);
    AuditActor { subject: TokenSubject::new(name).unwrap(), is_admin: false, ..owner }
}

async fn publish(store: &dyn RegistryStore, name: &str, by: &str) -> PublicationResult {
    store.publish(&first_version(&name.parse().unwrap()), &publisher(by)).await.unwrap()
}

/// The result by the rule of the language, which compares with every name.
fn expect_result(
    names: &BTreeMap<CapabilityName, &str>,
    new: &CapabilityName,
    by: &str,
) -> Result<(), &'static str> {
    if names.keys().any(|name| name.to_kebab() == new.to_kebab()) {
        return Err("taken");
    }
    let mut others = names.iter().filter(|(_, owner)| **owner != by);
    if others.any(|(name, _)| new.is_lookalike(name)) { Err("look-alike") } else { Ok(()) }
}

#[test]
fn the_database_finds_what_comparing_all_names_finds() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(ProptestConfig { cases: 12, ..ProptestConfig::default() });
    let attempt = ("[IOLRNM0]?[IlLiO0o1rRnNmM]{1,4}", 0..3_usize)
        .prop_map(|(name, by)| (format!("N{name}").parse::<CapabilityName>().unwrap(), by));
    let attempts = prop::collection::vec(attempt, 1..40);
    let run = runner.run(&attempts, |attempts| {
        runtime.block_on(async {
            let folder = Folder::new().await;
            let store = store::open(&folder.config(None).database).await.unwrap();
            let mut names = BTreeMap::new();
            for (name, by) in attempts {
                let by = ["ann", "bob", "cem"][by];
                let result = match publish(&*store, name.as_str(), by).await {
                    PublicationResult::Created(_) => Ok(()),
                    PublicationResult::LookAlike(other) => {
                        prop_assert!(name.is_lookalike(&other), "{name} {other}");
                        prop_assert_ne!(names[&other], by);
                        Err("look-alike")
                    }
                    PublicationResult::NameTaken(_)
                    | PublicationResult::Same
                    | PublicationResult::NotOwner(_) => Err("taken"),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(result, expect_result(&names, &name, by), "{} of {}", &name, by);
                if result.is_ok() {
                    names.insert(name, by);
                }
            }
            store.close().await;
            Ok(())
        })
    });
    run.unwrap();
}

/// A database as the version before left it, with a name of ann.
async fn create_older_database(folder: &Folder) {
    let database = folder.database().await;
    let (sqlite, postgres): (Migrator, Migrator) =
        (sqlx::migrate!("migrations/sqlite"), sqlx::migrate!("migrations/postgres"));
    let older = |all: &Migrator, last: i64| {
        let older = all.iter().filter(|migration| migration.version <= last).cloned().collect();
        Migrator::with_migrations(older)
    };
    match &database {
        Behind::Sqlite(pool) => older(&sqlite, 10).run(pool).await.unwrap(),
        Behind::Postgres(pool) => older(&postgres, 6).run(pool).await.unwrap(),
    }
    for sql in [
        "INSERT INTO capability (name, slug) VALUES ('RunModern', 'run-modern')",
        "INSERT INTO owner (capability, subject) SELECT id, 'ann' FROM capability",
    ] {
        database.execute(sql, &[]).await;
    }
    database.close().await;
}

#[tokio::test]
async fn names_of_an_older_database_have_lookalikes() {
    let folder = Folder::new().await;
    create_older_database(&folder).await;
    let store = store::open(&folder.config(None).database).await.unwrap();
    for name in ["RunModem", "RunM0dern", "RUNMODERN"] {
        let result = publish(&*store, name, "bob").await;
        assert_eq!(result, PublicationResult::LookAlike("RunModern".parse().unwrap()), "{name}");
    }
    let others = [("RunModel", "bob"), ("RunModem", "ann")];
    for (name, by) in others {
        let result = publish(&*store, name, by).await;
        assert!(matches!(result, PublicationResult::Created(_)), "{name}: {result:?}");
    }
    store.close().await;
}

/// A program of the version before adds names while this one runs, or writes again after it.
#[tokio::test]
async fn names_that_an_older_program_adds_have_lookalikes() {
    let folder = Folder::new().await;
    let store = store::open(&folder.config(None).database).await.unwrap();
    let database = folder.database().await;
    for sql in [
        "INSERT INTO capability (name, slug, origin) VALUES ('SendMaiI', 'send-mai-i', NULL)",
        "INSERT INTO owner (capability, subject) SELECT id, 'ann' FROM capability",
    ] {
        database.execute(sql, &[]).await;
    }
    database.close().await;
    for (name, is_refused) in [("SendMail", true), ("SENDMAII", true), ("SendMall", false)] {
        let result = publish(&*store, name, "bob").await;
        let is_lookalike = matches!(result, PublicationResult::LookAlike(_));
        assert_eq!(is_lookalike, is_refused, "{name}: {result:?}");
    }
    store.close().await;
}
