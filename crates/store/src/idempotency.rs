use std::time::Duration;

use async_trait::async_trait;
use pillion_core::store::{
    IdempotencyKey, IdempotencyStore, KeyClaim, StoreError, Timestamp, UNFINISHED_KEY_TTL,
};

use crate::Result;
use crate::sql_store::SqlStore;

#[async_trait]
impl IdempotencyStore for SqlStore {
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        expired_until: Timestamp,
        expires_at: Timestamp,
    ) -> Result<KeyClaim> {
        let claim_sql = "INSERT INTO idempotency_keys (scope, name, fingerprint, expires_at) \
                     VALUES ($1, $2, $3, $4) ON CONFLICT (scope, name) DO UPDATE SET \
                     fingerprint = excluded.fingerprint, result = NULL, \
                     expires_at = excluded.expires_at \
                     WHERE idempotency_keys.expires_at <= $5 \
                     AND (idempotency_keys.result IS NOT NULL \
                     OR idempotency_keys.expires_at <= $6)";
        let find_sql = "SELECT fingerprint, result, expires_at FROM idempotency_keys \
                    WHERE scope = $1 AND name = $2";
        loop {
            let claim_values = vec![
                (&key.scope).into(),
                (&key.key).into(),
                fingerprint.into(),
                expires_at.into(),
                expired_until.into(),
                expired_until.minus(UNFINISHED_KEY_TTL).into(),
            ];
            if self.database.write(claim_sql, claim_values).await? == 1 {
                return Ok(KeyClaim::Claimed);
            }
            let find_values = vec![(&key.scope).into(), (&key.key).into()];
            let Some(row) = self.database.read_one(find_sql, find_values).await? else {
                // The claim is attempted again, because the previous owner has just released the
                // key.
                continue;
            };
            let found_fingerprint = row.text("fingerprint")?;
            let found_expiry = row.timestamp("expires_at")?;
            return Ok(match row.optional_text("result")? {
                Some(result) => KeyClaim::Recorded {
                    fingerprint: found_fingerprint,
                    result,
                    expires_at: found_expiry,
                },
                None => KeyClaim::InProgress {
                    fingerprint: found_fingerprint,
                    expires_at: found_expiry,
                },
            });
        }
    }

    async fn keys_expired_until(&self, ttl: Duration) -> Result<Option<Timestamp>> {
        Ok(self.record_clock_reading().await?.expired_until(ttl))
    }

    async fn record_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        result: &str,
    ) -> Result<()> {
        let update_sql = "UPDATE idempotency_keys SET result = $4 \
                   WHERE scope = $1 AND name = $2 AND fingerprint = $3 AND result IS NULL";
        let update_values = vec![
            (&key.scope).into(),
            (&key.key).into(),
            fingerprint.into(),
            result.into(),
        ];
        if self.database.write(update_sql, update_values).await? == 1 {
            return Ok(());
        }
        let find_sql = "SELECT 1 AS present FROM idempotency_keys WHERE scope = $1 AND name = $2";
        let find_values = vec![(&key.scope).into(), (&key.key).into()];
        Err(match self.database.read_one(find_sql, find_values).await? {
            Some(_) => StoreError::conflict(format!(
                "the idempotency key '{}' has a result, or another request has claimed it",
                key.key
            )),
            None => {
                StoreError::not_found(format!("the idempotency key '{}' is not claimed", key.key))
            }
        })
    }

    async fn release_key(&self, key: &IdempotencyKey, fingerprint: &str) -> Result<()> {
        let sql = "DELETE FROM idempotency_keys \
                   WHERE scope = $1 AND name = $2 AND fingerprint = $3 AND result IS NULL";
        let values = vec![(&key.scope).into(), (&key.key).into(), fingerprint.into()];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn key_bytes(&self) -> Result<Vec<(String, u64)>> {
        // The query is cheap: both databases determine the length of a text without reading the
        // text.
        let sql = "SELECT scope, CAST(SUM(octet_length(result)) AS BIGINT) AS bytes \
                   FROM idempotency_keys WHERE result IS NOT NULL GROUP BY scope";
        let rows = self.database.read(sql, Vec::new()).await?;
        rows.iter()
            .map(|row| Ok((row.text("scope")?, row.count("bytes")?)))
            .collect()
    }

    async fn remove_expired_keys(&self, expired_until: Timestamp) -> Result<u64> {
        let sql = "DELETE FROM idempotency_keys WHERE expires_at <= $1 \
                   AND (result IS NOT NULL OR expires_at <= $2)";
        let values = vec![
            expired_until.into(),
            expired_until.minus(UNFINISHED_KEY_TTL).into(),
        ];
        self.database.write(sql, values).await
    }
}
