-- One row. ClickHouse counts parts by partition where it slows inserts down. Of its disks the one
-- with the smallest free share is where it ends.
SELECT
    (
        SELECT groupArray((table, most, bytes))
        FROM
        (
            SELECT table, max(parts) AS most, sum(partition_bytes) AS bytes
            FROM
            (
                SELECT table, count() AS parts, sum(bytes_on_disk) AS partition_bytes
                FROM system.parts
                WHERE active AND database = currentDatabase()
                GROUP BY table, partition_id
            )
            GROUP BY table
            ORDER BY table
        )
    ) AS tables,
    (
        SELECT argMin((toInt64(free_space), toInt64(total_space)), free_space / total_space)
        FROM system.disks
        WHERE total_space > 0
    ) AS disk
