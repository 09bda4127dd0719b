use std::time::Duration;

use async_trait::async_trait;
use pillion_core::store::{
    IdempotencyKey, IdempotencyStore, KeyClaim, StoreError, Timestamp, UNFINISHED_KEY_TTL,
};

use crate::sql_store::SqlStore;

#[async_trait]
impl IdempotencyStore for SqlStore {
    async fn claim_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        expired_until: Timestamp,
        expires_at: Timestamp,
    ) -> Result<KeyClaim, StoreError> {
        let claim = "INSERT INTO idempotency_keys (scope, name, fingerprint, expires_at) \
                     VALUES ($1, $2, $3, $4) ON CONFLICT (scope, name) DO UPDATE SET \
                     fingerprint = excluded.fingerprint, result = NULL, \
                     expires_at = excluded.expires_at \
                     WHERE idempotency_keys.expires_at <= $5 \
                     AND (idempotency_keys.result IS NOT NULL \
                     OR idempotency_keys.expires_at <= $6)";
        let find = "SELECT fingerprint, result, expires_at FROM idempotency_keys \
                    WHERE scope = $1 AND name = $2";
        loop {
            let values = vec![
                (&key.scope).into(),
                (&key.key).into(),
                fingerprint.into(),
                expires_at.into(),
                expired_until.into(),
                expired_until.minus(UNFINISHED_KEY_TTL).into(),
            ];
            if self.database.write(claim, values).await? == 1 {
                return Ok(KeyClaim::Claimed);
            }
            let values = vec![(&key.scope).into(), (&key.key).into()];
            let Some(row) = self.database.read_one(find, values).await? else {
                continue; // The previous owner has just released the key.
            };
            let fingerprint = row.text("fingerprint")?;
            let expires_at = row.timestamp("expires_at")?;
            return Ok(match row.optional_text("result")? {
                Some(result) => KeyClaim::Recorded {
                    fingerprint,
                    result,
                    expires_at,
                },
                None => KeyClaim::InProgress {
                    fingerprint,
                    expires_at,
                },
            });
        }
    }

    async fn keys_expired_until(&self, ttl: Duration) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.clock().await?.expired(ttl))
    }

    async fn record_key(
        &self,
        key: &IdempotencyKey,
        fingerprint: &str,
        result: &str,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE idempotency_keys SET result = $4 \
                   WHERE scope = $1 AND name = $2 AND fingerprint = $3 AND result IS NULL";
        let values = vec![
            (&key.scope).into(),
            (&key.key).into(),
            fingerprint.into(),
            result.into(),
        ];
        if self.database.write(sql, values).await? == 1 {
            return Ok(());
        }
        let sql = "SELECT 1 AS present FROM idempotency_keys WHERE scope = $1 AND name = $2";
        let values = vec![(&key.scope).into(), (&key.key).into()];
        Err(match self.database.read_one(sql, values).await? {
            Some(_) => StoreError::conflict(
                "the idempotency key has a result, or another request has claimed it",
            ),
            None => StoreError::not_found("the idempotency key is not claimed"),
        })
    }

    async fn release_key(&self, key: &IdempotencyKey, fingerprint: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM idempotency_keys \
                   WHERE scope = $1 AND name = $2 AND fingerprint = $3 AND result IS NULL";
        let values = vec![(&key.scope).into(), (&key.key).into(), fingerprint.into()];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn key_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        // Both databases determine the length of a text without reading the text.
        let sql = "SELECT scope, CAST(SUM(octet_length(result)) AS BIGINT) AS bytes \
                   FROM idempotency_keys WHERE result IS NOT NULL GROUP BY scope";
        let rows = self.database.read(sql, Vec::new()).await?;
        let sizes = rows.iter();
        sizes
            .map(|row| Ok((row.text("scope")?, row.count("bytes")?)))
            .collect()
    }

    async fn remove_expired_keys(&self, until: Timestamp) -> Result<u64, StoreError> {
        let sql = "DELETE FROM idempotency_keys WHERE expires_at <= $1 \
                   AND (result IS NOT NULL OR expires_at <= $2)";
        let values = vec![until.into(), until.minus(UNFINISHED_KEY_TTL).into()];
        self.database.write(sql, values).await
    }
}
