use async_trait::async_trait;
use pillion_core::store::{
    LogBounds, LogEntry, LogSummary, PackStore, PageRequest, StoreError, Timestamp,
};
use sqlx::AssertSqlSafe;

use crate::Result;
use crate::database::{Row, SqlValue, Transaction, unreadable_column};
use crate::sql_store::SqlStore;

/// The maximum length of the name of a pack, a document or a log, in bytes.
const MAX_NAME_BYTES: usize = 512;

#[async_trait]
impl PackStore for SqlStore {
    async fn put_document(
        &self,
        pack: &str,
        name: &str,
        json: &str,
        max_documents: Option<u32>,
    ) -> Result<bool> {
        check_names([pack, name])?;
        let mut transaction = self.database.begin().await?;
        let values = || vec![pack.into(), name.into(), json.into()];
        // The two statements are repeated if another process adds or removes the document between
        // them.
        let is_new = loop {
            let update_sql = "UPDATE pack_documents SET json = $3 WHERE pack = $1 AND name = $2";
            if transaction.write(update_sql, values()).await? == 1 {
                break false;
            }
            let insert_sql = "INSERT INTO pack_documents (pack, name, json) VALUES ($1, $2, $3) \
                       ON CONFLICT (pack, name) DO NOTHING";
            if transaction.write(insert_sql, values()).await? == 1 {
                break true;
            }
        };
        if is_new && let Some(max) = max_documents {
            let sql = "SELECT COUNT(*) AS number FROM pack_documents WHERE pack = $1";
            check_limit(&mut transaction, pack, sql, max, "documents").await?;
        }
        transaction.commit().await?;
        Ok(is_new)
    }

    async fn find_document(&self, pack: &str, name: &str) -> Result<Option<String>> {
        let sql = "SELECT json FROM pack_documents WHERE pack = $1 AND name = $2";
        let values = vec![pack.into(), name.into()];
        let row = self.database.read_one(sql, values).await?;
        row.map(|row| row.text("json")).transpose()
    }

    async fn remove_document(&self, pack: &str, name: &str) -> Result<bool> {
        let sql = "DELETE FROM pack_documents WHERE pack = $1 AND name = $2";
        let values = vec![pack.into(), name.into()];
        Ok(self.database.write(sql, values).await? == 1)
    }

    async fn count_documents(&self, pack: &str, prefix: &str) -> Result<u64> {
        self.count_rows("pack_documents", pack, prefix).await
    }

    async fn documents(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>> {
        let mut values: Vec<SqlValue> = vec![pack.into(), clamp_limit(limit).into()];
        let mut sql = "SELECT name, json FROM pack_documents WHERE pack = $1".to_owned();
        sql += &build_prefix_condition(prefix, &mut values);
        sql += &build_after_condition(after, &mut values);
        sql += " ORDER BY name LIMIT $2";
        let rows = self.database.read(AssertSqlSafe(sql), values).await?;
        rows.iter()
            .map(|row| Ok((row.text("name")?, row.text("json")?)))
            .collect()
    }

    async fn append_entry(
        &self,
        pack: &str,
        log: &str,
        json: &str,
        appended_at: Timestamp,
        bounds: LogBounds,
    ) -> Result<LogEntry> {
        check_names([pack, log])?;
        let mut transaction = self.database.begin().await?;
        // This statement locks the log's row until the end of the transaction.
        let upsert_sql = "INSERT INTO pack_logs (pack, name, latest, latest_at) \
                   VALUES ($1, $2, 1, $3) \
                   ON CONFLICT (pack, name) \
                   DO UPDATE SET latest = pack_logs.latest + 1, latest_at = excluded.latest_at";
        let upsert_values = vec![pack.into(), log.into(), appended_at.into()];
        transaction.write(upsert_sql, upsert_values).await?;
        let number_sql = "SELECT latest FROM pack_logs WHERE pack = $1 AND name = $2";
        let rows = transaction
            .read(number_sql, vec![pack.into(), log.into()])
            .await?;
        let row = rows.first().ok_or_else(|| unreadable_column("latest"))?;
        let number = row.integer("latest")?;
        if number == 1
            && let Some(max) = bounds.max_logs
        {
            let sql = "SELECT COUNT(*) AS number FROM pack_logs WHERE pack = $1";
            check_limit(&mut transaction, pack, sql, max, "logs").await?;
        }
        if let Some(max) = bounds.max_entries {
            let sql = "DELETE FROM pack_log_entries WHERE pack = $1 AND log = $2 AND number <= $3";
            let last_removed_number = number - i64::from(max.max(1));
            let values = vec![pack.into(), log.into(), last_removed_number.into()];
            transaction.write(sql, values).await?;
        }
        let insert_sql = "INSERT INTO pack_log_entries (pack, log, number, at, json) \
                   VALUES ($1, $2, $3, $4, $5)";
        let insert_values = vec![
            pack.into(),
            log.into(),
            number.into(),
            appended_at.into(),
            json.into(),
        ];
        transaction.write(insert_sql, insert_values).await?;
        transaction.commit().await?;
        Ok(LogEntry {
            number: u64::try_from(number).map_err(|_| unreadable_column("latest"))?,
            added_at: appended_at,
            json: json.to_owned(),
        })
    }

    async fn last_entries(
        &self,
        pack: &str,
        log: &str,
        before_number: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>> {
        let max_number =
            before_number.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let sql = "SELECT number, at, json FROM pack_log_entries \
                   WHERE pack = $1 AND log = $2 AND number < $3 ORDER BY number DESC LIMIT $4";
        let values = vec![
            pack.into(),
            log.into(),
            max_number.into(),
            clamp_limit(limit).into(),
        ];
        let rows = self.database.read(sql, values).await?;
        rows.iter().rev().map(read_entry).collect()
    }

    async fn logs(&self, pack: &str, prefix: &str, limit: u32) -> Result<Vec<LogSummary>> {
        let mut values: Vec<SqlValue> = vec![pack.into(), clamp_limit(limit).into()];
        let condition = build_prefix_condition(prefix, &mut values);
        self.read_log_summaries(&condition, "latest_at DESC, name", values)
            .await
    }

    async fn logs_by_name(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<LogSummary>> {
        let mut values: Vec<SqlValue> = vec![pack.into(), clamp_limit(limit).into()];
        let mut condition = build_prefix_condition(prefix, &mut values);
        condition += &build_after_condition(after, &mut values);
        self.read_log_summaries(&condition, "name", values).await
    }

    async fn count_logs(&self, pack: &str, prefix: &str) -> Result<u64> {
        self.count_rows("pack_logs", pack, prefix).await
    }

    async fn remove_log(&self, pack: &str, log: &str) -> Result<bool> {
        let mut transaction = self.database.begin().await?;
        let values = || vec![pack.into(), log.into()];
        // Deleting the log's row blocks concurrent appends, which change the row, until the end of
        // the transaction. If the log has no row, it has no entries to remove; a log that is
        // created concurrently remains.
        let delete_sql = "DELETE FROM pack_logs WHERE pack = $1 AND name = $2";
        let exists = transaction.write(delete_sql, values()).await? == 1;
        if exists {
            let entries_sql = "DELETE FROM pack_log_entries WHERE pack = $1 AND log = $2";
            transaction.write(entries_sql, values()).await?;
        }
        transaction.commit().await?;
        Ok(exists)
    }
}

impl SqlStore {
    /// Returns the summaries of the logs that match `condition`. The first two of the `values` are
    /// the pack and the limit.
    async fn read_log_summaries(
        &self,
        condition: &str,
        order_by: &str,
        values: Vec<SqlValue>,
    ) -> Result<Vec<LogSummary>> {
        let sql = format!(
            "SELECT latest_logs.name AS name, entries.number AS number, entries.at AS at, \
             entries.json AS json \
             FROM (SELECT name, latest, latest_at FROM pack_logs WHERE pack = $1{condition} \
             ORDER BY {order_by} LIMIT $2) AS latest_logs \
             JOIN pack_log_entries AS entries ON entries.pack = $1 \
             AND entries.log = latest_logs.name AND entries.number = latest_logs.latest \
             ORDER BY {order_by}"
        );
        let rows = self.database.read(AssertSqlSafe(sql), values).await?;
        rows.iter()
            .map(|row| {
                Ok(LogSummary {
                    log: row.text("name")?,
                    latest: read_entry(row)?,
                })
            })
            .collect()
    }

    async fn count_rows(&self, table: &str, pack: &str, prefix: &str) -> Result<u64> {
        let mut values: Vec<SqlValue> = vec![pack.into()];
        let condition = build_prefix_condition(prefix, &mut values);
        let sql = format!("SELECT COUNT(*) AS number FROM {table} WHERE pack = $1{condition}");
        let row = self.database.read_one(AssertSqlSafe(sql), values).await?;
        row.ok_or_else(|| unreadable_column("number"))?
            .count("number")
    }
}

fn check_names(names: [&str; 2]) -> Result<()> {
    match names.iter().find(|name| name.len() > MAX_NAME_BYTES) {
        Some(name) => Err(StoreError::invalid(format!(
            "the name of a pack, a document or a log has {} bytes; the limit is {MAX_NAME_BYTES}",
            name.len()
        ))),
        None => Ok(()),
    }
}

/// Checks that the pack has at most `max_rows` rows, including the row that the transaction has
/// just added. If there are more, the caller must not commit. Concurrent transactions that add rows
/// wait for each other here, because they would otherwise not see each other's row.
async fn check_limit(
    transaction: &mut Transaction,
    pack: &str,
    sql: &'static str,
    max_rows: u32,
    kind: &str,
) -> Result<()> {
    let name = format!("pack {kind} {pack}");
    transaction.lock_name(&name).await?;
    let rows = transaction.read(sql, vec![pack.into()]).await?;
    let row = rows.first().ok_or_else(|| unreadable_column("number"))?;
    if row.count("number")? > u64::from(max_rows) {
        return Err(StoreError::full(format!(
            "pack '{pack}' already has {max_rows} {kind}, the maximum"
        )));
    }
    Ok(())
}

fn clamp_limit(limit: u32) -> i64 {
    limit.clamp(1, PageRequest::MAX_LIMIT).into()
}

/// Returns a condition for names that begin with `prefix`. The condition is case-sensitive, unlike
/// SQLite's LIKE.
fn build_prefix_condition(prefix: &str, values: &mut Vec<SqlValue>) -> String {
    if prefix.is_empty() {
        return String::new();
    }
    let char_count = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
    values.push(prefix.into());
    // The number is a literal in the SQL and not a parameter, because Postgres' `substr` does not
    // accept a BIGINT.
    format!(" AND substr(name, 1, {char_count}) = ${}", values.len())
}

/// Returns the SQL condition for names that sort after `after`; for all names if `after` is `None`.
fn build_after_condition(after: Option<&str>, values: &mut Vec<SqlValue>) -> String {
    let Some(name) = after else {
        return String::new();
    };
    values.push(name.into());
    format!(" AND name > ${}", values.len())
}

fn read_entry(row: &Row) -> Result<LogEntry> {
    Ok(LogEntry {
        number: row.count("number")?,
        added_at: row.timestamp("at")?,
        json: row.text("json")?,
    })
}
