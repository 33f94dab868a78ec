//! The loop of whoever edits a document, and names and values on the command line.

use crate::harness::{World, shipped};

#[test]
fn stale_checksum_is_tested_and_written_at_publish() {
    let world = World::up(&[]);
    let source = std::fs::read_to_string(shipped("ListDogBreeds")).unwrap();
    let edited = source.replacen("version: \"1.0\"", "version: \"1.1\"", 1);
    assert_ne!(edited, source);
    let file = world.write("edited.yaml", &edited);
    let tested = world.a2s(&["test", &file]).exits(0);
    assert!(tested.stderr.contains("the checksum does not match the content"), "{tested:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), edited);
    let refused = world.a2s(&["publish", &file]).exits(1);
    assert!(refused.stdout.contains("A2S031"), "{refused:?}");
    world.a2s(&["publish", "--write-checksum", &file]).exits(0);
    world.a2s(&["verify", &file]).exits(0);
    let tested = world.a2s(&["test", &file]).exits(0);
    assert!(!tested.stderr.contains("checksum"), "{tested:?}");
}

#[test]
fn names_that_are_not_known_get_the_closest_one() {
    let world = World::up(&[]);
    for command in [&["show", "GetWikipedaSummary"][..], &["run", "GetWikipedaSummary"]] {
        let failed = world.a2s(command);
        assert_ne!(failed.code, 0, "{failed:?}");
        assert!(failed.stderr.contains("Did you mean `GetWikipediaSummary`?"), "{failed:?}");
    }
    let failed = world.a2s(&["run", "GetWikipediaSummary", "--dry-run", "--input", "topics=Dog"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert!(failed.stderr.contains("Did you mean `topic`?"), "{failed:?}");
}

#[test]
fn a_number_is_text_where_the_input_takes_text() {
    let world = World::up(&[]);
    let run = ["run", "GetWikipediaSummary", "--dry-run", "--json", "--input", "topic=1984"];
    let plan = world.a2s(&run).exits(0).one();
    assert!(plan.to_string().contains("\"1984\""), "{plan}");
}
