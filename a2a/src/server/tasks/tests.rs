use serde_json::json;

use super::*;
use crate::model::Role;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(minutes * 60).unwrap()
}

fn message(text: &str) -> Message {
    let parts = vec![Part::Text(text.to_owned())];
    Message { id: text.to_owned(), context: None, task: None, role: Role::User, parts }
}

fn status(state: TaskState) -> TaskUpdate {
    TaskUpdate::Status(TaskStatus { state, message: None, timestamp: None })
}

fn pending() -> PendingQuestion {
    let pin =
        json!({"name": "A", "version": "1.0.0", "checksum": format!("sha256:{}", "0".repeat(64))});
    serde_json::from_value(json!({"query": "q", "capability": pin, "missing": ["m"]})).unwrap()
}

fn open(tasks: &TaskStore, id: u128, now: Timestamp) -> Arc<TaskEntry> {
    let entry = tasks.create(Uuid::from_u128(id), None, "c".to_owned(), now).unwrap();
    assert_eq!(entry.accept_message(message("hi"), now), Ok(None));
    entry
}

#[test]
fn ended_task_takes_no_message() {
    let tasks = TaskStore::default();
    let entry = open(&tasks, 1, at(0));
    assert_eq!(
        entry.accept_message(message("again"), at(0)),
        Err(TaskNotWaiting(TaskState::Submitted))
    );
    entry.set_question(pending(), Vec::new());
    entry.apply_update(status(TaskState::InputRequired), at(1));
    // What comes late changes nothing.
    entry.apply_update(status(TaskState::Working), at(1));
    assert_eq!(entry.accept_message(message("Paris"), at(2)), Ok(Some(pending())));
    assert_eq!(
        entry.accept_message(message("Rome"), at(2)),
        Err(TaskNotWaiting(TaskState::Submitted))
    );
    entry.apply_update(status(TaskState::Completed), at(3));
    assert_eq!(
        entry.accept_message(message("Oslo"), at(4)),
        Err(TaskNotWaiting(TaskState::Completed))
    );
    let said: Vec<_> = entry.snapshot().0.history.into_iter().map(|message| message.id).collect();
    assert_eq!(said, ["hi", "Paris"]);
}

#[test]
fn a_task_is_cancelled_until_it_is_over() {
    let tasks = TaskStore::default();
    let entry = open(&tasks, 1, at(0));
    entry.set_question(pending(), Vec::new());
    entry.apply_update(status(TaskState::InputRequired), at(0));
    assert!(matches!(entry.cancel(message("stop"), at(1)), Ok(None)));
    assert!(matches!(entry.cancel(message("stop"), at(1)), Err(TaskState::Canceled)));
    entry.apply_update(status(TaskState::Completed), at(1));
    assert_eq!(entry.snapshot().0.status.state, TaskState::Canceled);
    assert_eq!(
        entry.accept_message(message("Paris"), at(2)),
        Err(TaskNotWaiting(TaskState::Canceled))
    );
}

#[test]
fn tasks_expire_by_age_and_number_when_ended() {
    let tasks = TaskStore::default();
    let working = open(&tasks, 0, at(0));
    let asking = open(&tasks, 1, at(0));
    asking.apply_update(status(TaskState::InputRequired), at(0));
    assert!(tasks.get(asking.id, None, at(60)).is_some());
    assert!(tasks.get(asking.id, None, at(61)).is_none());
    for id in 2..1_000 {
        open(&tasks, id, at(100)).apply_update(status(TaskState::Completed), at(100));
    }
    assert!(tasks.get(working.id, None, at(100)).is_some());
    assert_eq!(tasks.lock().len(), MAX_TASKS);
    assert!(tasks.get(Uuid::from_u128(999), None, at(100)).is_some());
}

#[test]
fn where_all_tasks_work_there_is_no_room_for_another() {
    let tasks = TaskStore::default();
    let working: Vec<_> = (0..256).map(|id| open(&tasks, id, at(0))).collect();
    let refused = tasks.create(Uuid::from_u128(256), None, "c".to_owned(), at(1_000));
    assert_eq!(refused.map(|entry| entry.id), Err(TaskStoreFull));
    assert_eq!(tasks.lock().len(), working.len());
    working[7].apply_update(status(TaskState::InputRequired), at(1_000));
    open(&tasks, 256, at(1_000));
    assert!(tasks.get(working[7].id, None, at(1_000)).is_none());
}

#[tokio::test]
async fn every_stream_hears_everything_in_order_up_to_the_last() {
    let tasks = TaskStore::default();
    let entry = open(&tasks, 1, at(0));
    for _ in 0..2 * MAX_UPDATES {
        entry.apply_update(status(TaskState::Working), at(0));
    }
    let late = entry.snapshot().1;
    let waiting = async { entry.next_update(late).await };
    let ending = async { entry.apply_update(status(TaskState::Failed), at(0)) };
    let (heard, ()) = tokio::join!(waiting, ending);
    assert_eq!(heard, Some(status(TaskState::Failed)));
    entry.wait_until_settled().await;
    let mut all = Vec::new();
    while let Some(update) = entry.next_update(all.len()).await {
        all.push(update);
    }
    assert_eq!(all.len(), MAX_UPDATES + 1);
    assert_eq!(all.last(), Some(&status(TaskState::Failed)));
}

#[test]
fn what_was_said_is_kept_up_to_a_number() {
    let tasks = TaskStore::default();
    let entry = open(&tasks, 1, at(0));
    for turn in 0..40 {
        entry.apply_update(status(TaskState::InputRequired), at(turn));
        assert_eq!(entry.accept_message(message(&turn.to_string()), at(turn)), Ok(None));
    }
    let history = entry.snapshot().0.history;
    assert_eq!((history.len(), history.last().unwrap().id.as_str()), (MAX_HISTORY, "39"));
}

#[test]
fn history_is_bounded_and_keeps_the_last_message() {
    let tasks = TaskStore::default();
    let entry = open(&tasks, 1, at(0));
    let kept = |text: &str| {
        entry.apply_update(status(TaskState::InputRequired), at(0));
        entry.accept_message(message(text), at(0)).unwrap();
        entry.snapshot().0.history.len()
    };
    assert_eq!(kept(&"x".repeat(100 << 10)), 2);
    assert_eq!(kept(&"y".repeat(100 << 10)), 3);
    assert_eq!(kept(&"z".repeat(100 << 10)), 2);
    assert_eq!(kept(&"!".repeat(300 << 10)), 1);
}

#[test]
fn a_task_belongs_to_the_principal_that_asked_for_it() {
    let tasks = TaskStore::default();
    let owner = |name: &str| Some(name.parse::<Principal>().unwrap());
    let (alice, bob) = (owner("alice"), owner("bob"));
    let entry = tasks.create(Uuid::from_u128(1), alice.clone(), "c".to_owned(), at(0)).unwrap();
    assert!(tasks.get(entry.id, alice.as_ref(), at(0)).is_some());
    for other in [&bob, &owner("alice/ann"), &None] {
        assert!(tasks.get(entry.id, other.as_ref(), at(0)).is_none(), "{other:?}");
    }
}

#[test]
fn one_principal_takes_no_room_of_others() {
    let tasks = TaskStore::default();
    let [alice, bob] = ["alice", "bob"].map(|name| Some(name.parse::<Principal>().unwrap()));
    let open = |id: usize, owner: &Option<Principal>| {
        let id = Uuid::from_u128(u128::try_from(id).unwrap());
        tasks.create(id, owner.clone(), "c".to_owned(), at(0))
    };
    for id in 0..MAX_OWNED {
        open(id, &alice).unwrap();
    }
    assert_eq!(open(MAX_OWNED, &alice).err(), Some(TaskStoreFull));
    let entry = open(MAX_OWNED + 1, &bob).unwrap();
    assert!(tasks.get(entry.id, bob.as_ref(), at(0)).is_some());
}

#[test]
fn end_users_of_a_token_leave_room_to_others() {
    let tasks = TaskStore::default();
    let open = |id: usize, owner: String| {
        let id = Uuid::from_u128(u128::try_from(id).unwrap());
        tasks.create(id, Some(owner.parse().unwrap()), "c".to_owned(), at(0))
    };
    for id in 0..MAX_OF_TOKEN {
        open(id, format!("svc/u{id}")).unwrap();
    }
    assert_eq!(open(MAX_OF_TOKEN, "svc/late".to_owned()).err(), Some(TaskStoreFull));
    open(MAX_OF_TOKEN, "owner".to_owned()).unwrap();
}
