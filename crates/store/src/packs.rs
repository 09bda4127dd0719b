use async_trait::async_trait;
use pillion_core::store::{
    LogBounds, LogEntry, LogSummary, PackStore, PageRequest, StoreError, Timestamp,
};

use crate::database::{Row, Value, unreadable};
use crate::sql_store::SqlStore;

/// The longest name of a pack, a document or a log, in bytes.
const LONGEST_NAME: usize = 512;

#[async_trait]
impl PackStore for SqlStore {
    async fn put_document(
        &self,
        pack: &str,
        name: &str,
        json: &str,
        most: Option<u32>,
    ) -> Result<bool, StoreError> {
        check_names([pack, name])?;
        let mut transaction = self.database.begin().await?;
        let values = || vec![pack.into(), name.into(), json.into()];
        let sql = "INSERT INTO pack_documents (pack, name, json) VALUES ($1, $2, $3) \
                   ON CONFLICT (pack, name) DO NOTHING";
        let is_new = transaction.write(sql, values()).await? == 1;
        if is_new {
            let sql = "SELECT COUNT(*) AS number FROM pack_documents WHERE pack = $1";
            let rows = transaction.read(sql, vec![pack.into()]).await?;
            check_room(&rows, most, "documents")?;
        } else {
            let sql = "UPDATE pack_documents SET json = $3 WHERE pack = $1 AND name = $2";
            transaction.write(sql, values()).await?;
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

    async fn remove_document(&self, pack: &str, name: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM pack_documents WHERE pack = $1 AND name = $2";
        self.database
            .write(sql, vec![pack.into(), name.into()])
            .await?;
        Ok(())
    }

    async fn documents(
        &self,
        pack: &str,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut values: Vec<Value> = vec![pack.into(), size(limit).into()];
        let mut sql = "SELECT name, json FROM pack_documents WHERE pack = $1".to_owned();
        sql += &beginning_with(prefix, &mut values);
        if let Some(after) = after {
            values.push(after.into());
            sql += &format!(" AND name > ${}", values.len());
        }
        sql += " ORDER BY name LIMIT $2";
        let rows = self.database.read(&sql, values).await?;
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
        // Whoever changes the log's row is alone with it until the end.
        let sql = "INSERT INTO pack_logs (pack, name, latest, latest_at) VALUES ($1, $2, 1, $3) \
                   ON CONFLICT (pack, name) \
                   DO UPDATE SET latest = pack_logs.latest + 1, latest_at = excluded.latest_at";
        let values = vec![pack.into(), log.into(), at.into()];
        transaction.write(sql, values).await?;
        let sql = "SELECT latest FROM pack_logs WHERE pack = $1 AND name = $2";
        let rows = transaction.read(sql, vec![pack.into(), log.into()]).await?;
        let row = rows.first().ok_or_else(|| unreadable("latest"))?;
        let number = row.integer("latest")?;
        if number == 1 {
            let sql = "SELECT COUNT(*) AS number FROM pack_logs WHERE pack = $1";
            let rows = transaction.read(sql, vec![pack.into()]).await?;
            check_room(&rows, bounds.most_logs, "logs")?;
        }
        if let Some(most) = bounds.most_entries {
            let sql = "DELETE FROM pack_log_entries WHERE pack = $1 AND log = $2 AND number <= $3";
            let last = number - i64::from(most.max(1));
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
        let values = vec![pack.into(), log.into(), before.into(), size(limit).into()];
        let rows = self.database.read(sql, values).await?;
        rows.iter().rev().map(entry).collect()
    }

    async fn logs(
        &self,
        pack: &str,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<LogSummary>, StoreError> {
        let mut values: Vec<Value> = vec![pack.into(), size(limit).into()];
        let condition = beginning_with(prefix, &mut values);
        let sql = format!(
            "SELECT latest_logs.name AS name, entries.number AS number, entries.at AS at, \
             entries.json AS json \
             FROM (SELECT name, latest, latest_at FROM pack_logs WHERE pack = $1{condition} \
             ORDER BY latest_at DESC, name LIMIT $2) AS latest_logs \
             JOIN pack_log_entries AS entries ON entries.pack = $1 \
             AND entries.log = latest_logs.name AND entries.number = latest_logs.latest \
             ORDER BY latest_logs.latest_at DESC, latest_logs.name"
        );
        let rows = self.database.read(&sql, values).await?;
        rows.iter()
            .map(|row| {
                Ok(LogSummary {
                    log: row.text("name")?,
                    latest: entry(row)?,
                })
            })
            .collect()
    }

    async fn remove_log(&self, pack: &str, log: &str) -> Result<(), StoreError> {
        let mut transaction = self.database.begin().await?;
        for sql in [
            "DELETE FROM pack_logs WHERE pack = $1 AND name = $2",
            "DELETE FROM pack_log_entries WHERE pack = $1 AND log = $2",
        ] {
            let values = vec![pack.into(), log.into()];
            transaction.write(sql, values).await?;
        }
        transaction.commit().await
    }
}

fn check_names(names: [&str; 2]) -> Result<(), StoreError> {
    match names.iter().all(|name| name.len() <= LONGEST_NAME) {
        true => Ok(()),
        false => Err(StoreError::invalid(format!(
            "a name has at most {LONGEST_NAME} bytes"
        ))),
    }
}

/// There are no more of something than there may be, with the one that has just been added: without
/// a commit it is taken back.
fn check_room(rows: &[Row], most: Option<u32>, what: &str) -> Result<(), StoreError> {
    let row = rows.first().ok_or_else(|| unreadable("number"))?;
    match (most, row.count("number")?) {
        (Some(most), there) if there > u64::from(most) => Err(StoreError::full(format!(
            "there are {most} {what} of the pack already"
        ))),
        _ => Ok(()),
    }
}

fn size(limit: u32) -> i64 {
    limit.clamp(1, PageRequest::LARGEST).into()
}

/// A condition for names that begin so, letter for letter: SQLite's LIKE takes `a` for `A`.
fn beginning_with(prefix: &str, values: &mut Vec<Value>) -> String {
    if prefix.is_empty() {
        return String::new();
    }
    let letters = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
    values.push(prefix.into());
    // A number in the text, since Postgres takes no BIGINT here.
    format!(" AND substr(name, 1, {letters}) = ${}", values.len())
}

fn entry(row: &Row) -> Result<LogEntry, StoreError> {
    Ok(LogEntry {
        number: row.count("number")?,
        at: row.moment("at")?,
        json: row.text("json")?,
    })
}
