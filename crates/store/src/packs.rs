use async_trait::async_trait;
use pillion_core::store::{
    LogBounds, LogEntry, LogSummary, PackStore, PageRequest, StoreError, Timestamp,
};
use sqlx::AssertSqlSafe;

use crate::database::{Row, Transaction, Value, unreadable};
use crate::sql_store::SqlStore;

/// The maximum length of the name of a pack, a document or a log, in bytes.
const MAX_NAME_LEN: usize = 512;

#[async_trait]
impl PackStore for SqlStore {
    async fn put_document(
        &self,
        pack: &str,
        name: &str,
        json: &str,
        max: Option<u32>,
    ) -> Result<bool, StoreError> {
        check_names([pack, name])?;
        let mut transaction = self.database.begin().await?;
        let values = || vec![pack.into(), name.into(), json.into()];
        // Another process may add or remove the document between the two statements, which are then
        // repeated.
        let is_new = loop {
            let sql = "UPDATE pack_documents SET json = $3 WHERE pack = $1 AND name = $2";
            if transaction.write(sql, values()).await? == 1 {
                break false;
            }
            let sql = "INSERT INTO pack_documents (pack, name, json) VALUES ($1, $2, $3) \
                       ON CONFLICT (pack, name) DO NOTHING";
            if transaction.write(sql, values()).await? == 1 {
                break true;
            }
        };
        if is_new && let Some(max) = max {
            let sql = "SELECT COUNT(*) AS number FROM pack_documents WHERE pack = $1";
            check_limit(&mut transaction, pack, sql, max, "documents").await?;
        }
        transaction.commit().await?;
        Ok(is_new)
    }

    async fn document(&self, pack: &str, name: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT json FROM pack_documents WHERE pack = $1 AND name = $2";
        let values = vec![pack.into(), name.into()];
        let row = self.database.read_one(sql, values).await?;
        row.map(|row| row.text("json")).transpose()
    }

    async fn remove_document(&self, pack: &str, name: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM pack_documents WHERE pack = $1 AND name = $2";
        let values = vec![pack.into(), name.into()];
        Ok(self.database.write(sql, values).await? == 1)
    }

    async fn count_documents(&self, pack: &str, prefix: &str) -> Result<u64, StoreError> {
        self.count_rows("pack_documents", pack, prefix).await
    }

    async fn documents(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut values: Vec<Value> = vec![pack.into(), clamp_limit(limit).into()];
        let mut sql = "SELECT name, json FROM pack_documents WHERE pack = $1".to_owned();
        sql += &prefix_condition(prefix, &mut values);
        sql += &after_condition(after, &mut values);
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
        at: Timestamp,
        bounds: LogBounds,
    ) -> Result<LogEntry, StoreError> {
        check_names([pack, log])?;
        let mut transaction = self.database.begin().await?;
        // This statement locks the log's row until the end of the transaction.
        let sql = "INSERT INTO pack_logs (pack, name, latest, latest_at) VALUES ($1, $2, 1, $3) \
                   ON CONFLICT (pack, name) \
                   DO UPDATE SET latest = pack_logs.latest + 1, latest_at = excluded.latest_at";
        let values = vec![pack.into(), log.into(), at.into()];
        transaction.write(sql, values).await?;
        let sql = "SELECT latest FROM pack_logs WHERE pack = $1 AND name = $2";
        let rows = transaction.read(sql, vec![pack.into(), log.into()]).await?;
        let row = rows.first().ok_or_else(|| unreadable("latest"))?;
        let number = row.integer("latest")?;
        if number == 1
            && let Some(max) = bounds.max_logs
        {
            let sql = "SELECT COUNT(*) AS number FROM pack_logs WHERE pack = $1";
            check_limit(&mut transaction, pack, sql, max, "logs").await?;
        }
        if let Some(max) = bounds.max_entries {
            let sql = "DELETE FROM pack_log_entries WHERE pack = $1 AND log = $2 AND number <= $3";
            let last = number - i64::from(max.max(1));
            let values = vec![pack.into(), log.into(), last.into()];
            transaction.write(sql, values).await?;
        }
        let sql = "INSERT INTO pack_log_entries (pack, log, number, at, json) \
                   VALUES ($1, $2, $3, $4, $5)";
        let values = vec![
            pack.into(),
            log.into(),
            number.into(),
            at.into(),
            json.into(),
        ];
        transaction.write(sql, values).await?;
        transaction.commit().await?;
        Ok(LogEntry {
            number: u64::try_from(number).map_err(|_| unreadable("latest"))?,
            at,
            json: json.to_owned(),
        })
    }

    async fn last_entries(
        &self,
        pack: &str,
        log: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
        let sql = "SELECT number, at, json FROM pack_log_entries \
                   WHERE pack = $1 AND log = $2 AND number < $3 ORDER BY number DESC LIMIT $4";
        let values = vec![
            pack.into(),
            log.into(),
            before.into(),
            clamp_limit(limit).into(),
        ];
        let rows = self.database.read(sql, values).await?;
        rows.iter().rev().map(read_entry).collect()
    }

    async fn logs(
        &self,
        pack: &str,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError> {
        let mut values: Vec<Value> = vec![pack.into(), clamp_limit(limit).into()];
        let condition = prefix_condition(prefix, &mut values);
        self.summaries(&condition, "latest_at DESC, name", values)
            .await
    }

    async fn logs_by_name(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError> {
        let mut values: Vec<Value> = vec![pack.into(), clamp_limit(limit).into()];
        let mut condition = prefix_condition(prefix, &mut values);
        condition += &after_condition(after, &mut values);
        self.summaries(&condition, "name", values).await
    }

    async fn count_logs(&self, pack: &str, prefix: &str) -> Result<u64, StoreError> {
        self.count_rows("pack_logs", pack, prefix).await
    }

    async fn remove_log(&self, pack: &str, log: &str) -> Result<bool, StoreError> {
        let mut transaction = self.database.begin().await?;
        let values = || vec![pack.into(), log.into()];
        // Deleting the log's row excludes concurrent appends, which change the row, until the end
        // of the transaction. A log without a row has no entries; a concurrently created log stays.
        let sql = "DELETE FROM pack_logs WHERE pack = $1 AND name = $2";
        let exists = transaction.write(sql, values()).await? == 1;
        if exists {
            let sql = "DELETE FROM pack_log_entries WHERE pack = $1 AND log = $2";
            transaction.write(sql, values()).await?;
        }
        transaction.commit().await?;
        Ok(exists)
    }
}

impl SqlStore {
    /// Returns the summaries of logs. `values` begins with the pack and the limit.
    async fn summaries(
        &self,
        condition: &str,
        order: &str,
        values: Vec<Value>,
    ) -> Result<Vec<LogSummary>, StoreError> {
        let sql = format!(
            "SELECT latest_logs.name AS name, entries.number AS number, entries.at AS at, \
             entries.json AS json \
             FROM (SELECT name, latest, latest_at FROM pack_logs WHERE pack = $1{condition} \
             ORDER BY {order} LIMIT $2) AS latest_logs \
             JOIN pack_log_entries AS entries ON entries.pack = $1 \
             AND entries.log = latest_logs.name AND entries.number = latest_logs.latest \
             ORDER BY {order}"
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

    async fn count_rows(&self, table: &str, pack: &str, prefix: &str) -> Result<u64, StoreError> {
        let mut values: Vec<Value> = vec![pack.into()];
        let condition = prefix_condition(prefix, &mut values);
        let sql = format!("SELECT COUNT(*) AS number FROM {table} WHERE pack = $1{condition}");
        let row = self.database.read_one(AssertSqlSafe(sql), values).await?;
        row.ok_or_else(|| unreadable("number"))?.count("number")
    }
}

fn check_names(names: [&str; 2]) -> Result<(), StoreError> {
    if names.iter().any(|name| name.len() > MAX_NAME_LEN) {
        return Err(StoreError::invalid(format!(
            "a name of pack data must not be longer than {MAX_NAME_LEN} bytes"
        )));
    }
    Ok(())
}

/// Checks that the pack does not exceed its limit, including the row that was just added. After an
/// error, the caller does not commit. Transactions that add rows wait for each other here, because
/// otherwise two transactions would not see each other's row.
async fn check_limit(
    transaction: &mut Transaction,
    pack: &str,
    sql: &'static str,
    max: u32,
    what: &str,
) -> Result<(), StoreError> {
    let name = format!("pack {what} {pack}");
    transaction.lock_name(&name).await?;
    let rows = transaction.read(sql, vec![pack.into()]).await?;
    let row = rows.first().ok_or_else(|| unreadable("number"))?;
    if row.count("number")? > u64::from(max) {
        return Err(StoreError::full(format!(
            "the pack already has {max} {what}, the maximum"
        )));
    }
    Ok(())
}

fn clamp_limit(limit: u32) -> i64 {
    limit.clamp(1, PageRequest::MAX_LIMIT).into()
}

/// Returns a condition for names that begin with `prefix`. The condition is case-sensitive, unlike
/// SQLite's LIKE.
fn prefix_condition(prefix: &str, values: &mut Vec<Value>) -> String {
    if prefix.is_empty() {
        return String::new();
    }
    let letters = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
    values.push(prefix.into());
    // The number is a literal in the SQL, because Postgres' `substr` does not accept a BIGINT.
    format!(" AND substr(name, 1, {letters}) = ${}", values.len())
}

/// Returns a condition for names that sort after `after`, if given.
fn after_condition(after: Option<&str>, values: &mut Vec<Value>) -> String {
    let Some(after) = after else {
        return String::new();
    };
    values.push(after.into());
    format!(" AND name > ${}", values.len())
}

fn read_entry(row: &Row) -> Result<LogEntry, StoreError> {
    Ok(LogEntry {
        number: row.count("number")?,
        at: row.timestamp("at")?,
        json: row.text("json")?,
    })
}
