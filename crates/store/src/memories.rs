use async_trait::async_trait;
use pillion_core::store::{
    Memory, MemoryCategory, MemorySearch, MemoryStore, StoreError, Timestamp,
};
use sqlx::AssertSqlSafe;

use crate::Result;
use crate::database::{Row, SqlValue, unreadable_column};
use crate::sql_store::SqlStore;

#[async_trait]
impl MemoryStore for SqlStore {
    async fn insert_memory(&self, memory: &Memory, max_memories: u32) -> Result<bool> {
        let user_condition = match memory.user {
            Some(_) => "user_name = $3",
            None => "user_name IS NULL",
        };
        let sql = format!(
            "INSERT INTO memories (id, channel, user_name, category, content, content_lower, \
             importance, created_at, last_accessed_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 \
             WHERE (SELECT COUNT(*) FROM memories WHERE channel = $2 AND {user_condition}) < $10"
        );
        let values = vec![
            (&memory.id).into(),
            (&memory.channel).into(),
            (&memory.user).into(),
            memory.category.as_str().into(),
            (&memory.content).into(),
            memory.content.to_lowercase().into(),
            i64::from(memory.importance).into(),
            memory.created_at.into(),
            memory.last_accessed_at.into(),
            i64::from(max_memories).into(),
        ];
        Ok(self.database.write(AssertSqlSafe(sql), values).await? > 0)
    }

    async fn search_memories(&self, search: &MemorySearch, now: Timestamp) -> Result<Vec<Memory>> {
        let words = search.words();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<SqlValue> = vec![(&search.channel).into()];
        let mut word_conditions = String::new();
        for word in &words {
            values.push(build_like_pattern(word).into());
            word_conditions += &format!(" AND content_lower LIKE ${} ESCAPE '\\'", values.len());
        }
        let mut sql = format!(
            "SELECT * FROM memories WHERE channel = $1 AND user_name IS NULL{word_conditions}"
        );
        if search.user.is_some() {
            // Two queries are combined, because with one query and `OR`, SQLite would read all
            // memories of the channel.
            values.push((&search.user).into());
            sql += &format!(
                " UNION ALL SELECT * FROM memories WHERE channel = $1 AND \
                 user_name = ${}{word_conditions}",
                values.len()
            );
        }
        values.push(i64::from(search.limit).into());
        sql += &format!(
            " ORDER BY importance DESC, last_accessed_at DESC, id LIMIT ${}",
            values.len()
        );
        let rows = self.database.read(AssertSqlSafe(sql), values).await?;
        let mut memories: Vec<Memory> = rows.iter().map(read_memory).collect::<Result<_, _>>()?;
        self.update_access_times(&memories, now).await?;
        for memory in &mut memories {
            memory.last_accessed_at = now;
        }
        Ok(memories)
    }

    async fn remove_memory(&self, channel: &str, user: Option<&str>, id: &str) -> Result<()> {
        let sql = "DELETE FROM memories WHERE id = $1 AND channel = $2 \
                   AND (user_name IS NULL OR user_name = $3)";
        let user = user.map(str::to_owned);
        let values = vec![id.into(), channel.into(), (&user).into()];
        match self.database.write(sql, values).await? {
            0 => Err(StoreError::not_found("no memory has this ID")),
            _ => Ok(()),
        }
    }
}

impl SqlStore {
    /// Sets the last access time of the memories to `now`.
    async fn update_access_times(&self, memories: &[Memory], now: Timestamp) -> Result<()> {
        if memories.is_empty() {
            return Ok(());
        }
        let mut values: Vec<SqlValue> = vec![now.into()];
        values.extend(memories.iter().map(|memory| SqlValue::from(&memory.id)));
        let placeholders: Vec<String> = (2..=values.len())
            .map(|number| format!("${number}"))
            .collect();
        let ids = placeholders.join(", ");
        let sql = format!("UPDATE memories SET last_accessed_at = $1 WHERE id IN ({ids})");
        self.database.write(AssertSqlSafe(sql), values).await?;
        Ok(())
    }
}

/// Returns a LIKE pattern for texts that contain the word literally.
fn build_like_pattern(word: &str) -> String {
    let mut pattern = "%".to_owned();
    for character in word.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

fn read_memory(row: &Row) -> Result<Memory> {
    let category = MemoryCategory::from_name(&row.text("category")?);
    let importance = u8::try_from(row.integer("importance")?);
    Ok(Memory {
        id: row.text("id")?,
        channel: row.text("channel")?,
        user: row.optional_text("user_name")?,
        category: category.ok_or_else(|| unreadable_column("category"))?,
        content: row.text("content")?,
        importance: importance.map_err(|_| unreadable_column("importance"))?,
        created_at: row.timestamp("created_at")?,
        last_accessed_at: row.timestamp("last_accessed_at")?,
    })
}
