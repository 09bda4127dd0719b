//! The behavior of every store, for all backends. Each case begins with an empty store.

mod approvals;
mod calls;
mod others;
mod packs;
mod secrets;
mod servers;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pillion_core::store::{CallStatus, ProcessLife, Store, Timestamp, ToolCallRecord};

pub type Case = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($case:path),* $(,)?) => {
        [$((stringify!($case), |store| Box::pin($case(store)))),*]
    };
}

/// All cases, by name.
pub const CASES: [(&str, Case); 42] = cases![
    servers::f1_servers_are_kept_and_changed,
    servers::f1_names_and_ids_are_unique,
    servers::f2_removing_a_server_removes_its_calls_and_pins,
    servers::f2_records_go_by_the_name_that_a_server_has,
    calls::f4_a_call_is_stored_at_each_step,
    calls::f4_a_call_that_ended_does_not_change,
    calls::f4_many_at_once_are_all_stored,
    calls::f4_the_same_call_twice_at_once,
    calls::f4_calls_that_nobody_else_records_are_read_at_once,
    calls::f4_calls_are_found_by_what_they_are,
    calls::p_calls_are_found_by_the_call_that_made_them,
    calls::pages_are_stable_while_calls_come_in,
    calls::c7_calls_that_ran_are_what_limits_count,
    calls::a_foreign_cursor_is_refused,
    calls::statistics_count_and_rank,
    calls::calls_of_another_life_are_interrupted,
    calls::a_pending_call_with_an_open_approval_waits_on,
    calls::old_calls_go_by_age_number_and_size,
    calls::large_and_odd_texts_come_back_unchanged,
    calls::f4_a_text_with_a_zero_byte_is_kept_without_it,
    approvals::g3_the_first_decision_counts,
    approvals::g3_an_approval_is_used_once,
    approvals::approvals_are_listed_and_expire,
    others::an_idempotency_key_runs_once,
    others::a_pin_changes_only_when_accepted,
    others::l3_access_tokens_are_revoked_and_stay_so,
    others::d5_memories_are_found_by_words,
    others::d5_what_was_found_last_comes_first_of_what_is_as_important,
    others::kept_steps_are_taken_once,
    others::d5_a_user_has_so_many_memories_in_a_channel,
    others::settings_are_replaced,
    others::h4_a_chat_is_its_owners_and_changes_step_by_step,
    others::h4_a_chat_is_somebodys_for_a_while,
    packs::documents_of_packs_are_kept_apart,
    packs::packs_keep_no_more_than_they_say,
    packs::packs_keep_no_more_than_they_say_however_many_come_at_once,
    packs::what_packs_keep_is_counted_and_listed_by_name,
    packs::a_log_that_grows_while_it_is_removed_is_whole_or_gone,
    packs::a_document_that_is_put_while_it_is_removed_is_there_or_gone,
    packs::k1_a_log_of_a_pack_gives_its_last_entries,
    packs::k1_logs_are_listed_with_their_latest_entries,
    secrets::secrets_are_replaced_all_or_none,
];

pub fn process(life: &str) -> ProcessLife {
    ProcessLife {
        owner: "here".to_owned(),
        life: life.to_owned(),
    }
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

pub fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}
