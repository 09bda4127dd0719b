use async_trait::async_trait;
use pillion_core::store::{StepCheckpointStore, Timestamp};

use crate::Result;
use crate::sql_store::SqlStore;

#[async_trait]
impl StepCheckpointStore for SqlStore {
    async fn save_step_checkpoint(&self, key: &str, json: &str, until: Timestamp) -> Result<()> {
        let sql = "INSERT INTO step_checkpoints (name, json, expires_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (name) DO UPDATE SET json = excluded.json, \
                   expires_at = excluded.expires_at";
        let values = vec![key.into(), json.into(), until.into()];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn take_step_checkpoint(&self, key: &str, now: Timestamp) -> Result<Option<String>> {
        let find_sql = "SELECT json FROM step_checkpoints WHERE name = $1 AND expires_at > $2";
        let find_values = vec![key.into(), now.into()];
        let Some(row) = self.database.read_one(find_sql, find_values).await? else {
            return Ok(None);
        };
        let json = row.text("json")?;
        // If several callers have read the entry, only one of them deletes the entry and gets it.
        let take_sql = "DELETE FROM step_checkpoints WHERE name = $1 AND json = $2";
        let take_values = vec![key.into(), json.as_str().into()];
        let is_taken = self.database.write(take_sql, take_values).await? == 1;
        Ok(is_taken.then_some(json))
    }

    async fn remove_expired_step_checkpoints(&self, now: Timestamp) -> Result<u64> {
        let sql = "DELETE FROM step_checkpoints WHERE expires_at <= $1";
        self.database.write(sql, vec![now.into()]).await
    }
}
