//! The behavior of every store, for all backends. Each case begins with an empty store.

mod approvals;
mod calls;
mod others;
mod packs;
mod secrets;
mod servers;

pub use calls::assert_pages;
pub use servers::{server, servers_of_calls};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pillion_core::store::{
    CallLog, CallStatus, Cursor, Memory, MemoryCategory, PageRequest, ProcessRun, RecordPage,
    Store, StoreError, StoreErrorKind, Timestamp, ToolCallRecord, ToolPin,
};

pub type Case = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($case:path),* $(,)?) => {
        [$((stringify!($case), |store| Box::pin($case(store)))),*]
    };
}

/// All cases, by name.
pub const CASES: [(&str, Case); 47] = cases![
    servers::f1_servers_are_stored_and_changed,
    servers::f1_names_and_ids_are_unique,
    servers::f2_removing_a_server_removes_its_calls_and_pins,
    servers::f2_records_follow_the_name_of_a_server,
    calls::f4_a_call_is_stored_at_each_step,
    calls::f4_a_call_that_ended_does_not_change,
    calls::f4_many_at_once_are_all_stored,
    calls::f4_the_same_call_can_be_stored_twice_concurrently,
    calls::f4_own_calls_are_readable_at_once,
    calls::f4_calls_are_found_by_their_fields,
    calls::p_calls_are_found_by_their_parent_call,
    calls::pages_are_stable_while_calls_come_in,
    calls::a_page_of_calls_ends_at_its_size,
    calls::c7_rate_limits_count_calls_that_ran,
    calls::a_foreign_cursor_is_rejected,
    calls::statistics_count_and_rank,
    calls::calls_of_an_ended_process_are_interrupted,
    calls::a_waiting_call_ends_only_while_it_waits,
    calls::a_pending_call_with_an_open_approval_stays_pending,
    calls::old_calls_are_removed_by_age_number_and_size,
    calls::a_removed_call_is_distinguished_from_one_that_was_never_recorded,
    calls::large_and_unusual_texts_are_stored_unchanged,
    calls::f4_zero_bytes_are_removed_from_texts,
    approvals::g3_the_first_decision_counts,
    approvals::g3_an_approval_is_used_once,
    approvals::approvals_are_listed_and_expire,
    approvals::a_page_of_approvals_ends_at_its_size,
    approvals::claimed_and_verified_users_are_different_accounts_and_lists,
    others::an_idempotency_key_runs_once,
    others::a_pin_changes_only_when_accepted,
    others::l3_revoked_access_tokens_stay_revoked,
    others::d5_memories_are_found_by_words,
    others::d5_among_equal_importance_the_last_used_memory_comes_first,
    others::stored_steps_are_taken_once,
    others::d5_the_memories_of_a_user_in_a_channel_are_limited,
    others::settings_are_replaced,
    others::h4_only_its_owner_reads_a_chat_and_updates_follow_its_revision,
    others::h4_a_chat_can_be_claimed_for_a_while,
    packs::documents_of_packs_are_separate,
    packs::the_documents_of_packs_are_limited,
    packs::the_documents_of_packs_are_limited_under_concurrency,
    packs::documents_and_logs_of_packs_are_counted_and_listed_by_name,
    packs::a_log_removed_during_an_append_is_complete_or_gone,
    packs::a_document_removed_during_a_write_is_complete_or_gone,
    packs::k1_a_log_of_a_pack_returns_its_last_entries,
    packs::k1_logs_are_listed_with_their_latest_entries,
    secrets::secrets_are_replaced_atomically,
];

pub fn process(run_id: &str) -> ProcessRun {
    ProcessRun {
        owner: "here".to_owned(),
        run_id: run_id.to_owned(),
    }
}

/// Marks the unfinished calls as interrupted, as the next process does at its start.
pub async fn interrupt_all(
    store: &(impl CallLog + ?Sized),
    at: Timestamp,
) -> Result<(), StoreError> {
    for run_id in store.unfinished_processes("here").await? {
        store.interrupt_run(&process(&run_id), at).await?;
    }
    Ok(())
}

pub fn running(tool: &str) -> ToolCallRecord {
    ToolCallRecord::begin(process("now"), tool, "{}".to_owned())
}

pub fn ended(call: &ToolCallRecord, status: CallStatus) -> ToolCallRecord {
    ToolCallRecord {
        status,
        completed_at: Some(at(5_000)),
        ..call.clone()
    }
}

/// Returns a pin that applies to all users.
pub fn pin(server: &str, tool: &str, hash: &str) -> ToolPin {
    ToolPin {
        server: server.to_owned(),
        user: None,
        tool: tool.to_owned(),
        hash: hash.to_owned(),
        definition: "{}".to_owned(),
        accepted_at: at(1),
        pending: None,
        rejected_hash: None,
    }
}

pub fn memory(id: &str, channel: &str, user: Option<&str>) -> Memory {
    Memory {
        id: id.to_owned(),
        channel: channel.to_owned(),
        user: user.map(str::to_owned),
        category: MemoryCategory::Fact,
        content: "x".to_owned(),
        importance: 1,
        created_at: at(1),
        last_accessed_at: at(1),
    }
}

/// Checks that an operation failed with an error of this kind.
#[track_caller]
pub fn assert_fails<T>(outcome: Result<T, StoreError>, kind: StoreErrorKind) {
    let error = outcome.err().unwrap();
    assert_eq!(error.kind(), kind, "{error:?}");
}

/// Returns the items of each page of a list.
pub async fn all_pages<T>(
    first: PageRequest,
    list: impl AsyncFn(PageRequest) -> Result<RecordPage<T>, StoreError>,
) -> Vec<Vec<T>> {
    let mut pages = Vec::new();
    let mut request = first.clone();
    loop {
        let page = list(request).await.unwrap();
        pages.push(page.items);
        let Some(next) = page.next else { return pages };
        request = PageRequest {
            after: Some(Cursor::new(next.as_str())),
            ..first.clone()
        };
    }
}

pub fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}
