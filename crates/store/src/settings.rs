use async_trait::async_trait;
use pillion_core::store::SettingsStore;

use crate::Result;
use crate::sql_store::SqlStore;

#[async_trait]
impl SettingsStore for SqlStore {
    async fn find_setting(&self, key: &str) -> Result<Option<String>> {
        let sql = "SELECT json FROM settings WHERE name = $1";
        let row = self.database.read_one(sql, vec![key.into()]).await?;
        row.map(|row| row.text("json")).transpose()
    }

    async fn set_setting(&self, key: &str, json: &str) -> Result<()> {
        let sql = "INSERT INTO settings (name, json) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET json = excluded.json";
        self.database
            .write(sql, vec![key.into(), json.into()])
            .await?;
        Ok(())
    }

    async fn add_setting(&self, key: &str, json: &str) -> Result<()> {
        let sql = "INSERT INTO settings (name, json) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.database
            .write(sql, vec![key.into(), json.into()])
            .await?;
        Ok(())
    }

    async fn remove_setting(&self, key: &str) -> Result<()> {
        let sql = "DELETE FROM settings WHERE name = $1";
        self.database.write(sql, vec![key.into()]).await?;
        Ok(())
    }

    async fn settings(&self) -> Result<Vec<(String, String)>> {
        let sql = "SELECT name, json FROM settings ORDER BY name";
        let rows = self.database.read(sql, vec![]).await?;
        rows.iter()
            .map(|row| Ok((row.text("name")?, row.text("json")?)))
            .collect()
    }
}
