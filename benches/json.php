<?php

declare(strict_types=1);

/*
 * Compares the extension's conversion between JSON and PHP values with json_decode and json_encode, on the same
 * values, in alternating rounds. See docs/PERFORMANCE.md.
 *
 *     php -d extension=libpillion.so benches/json.php    (built with the feature `bench`)
 */

/** Returns a tool result of about this size: table rows, like the result of a database tool. */
function rows(int $bytes): array
{
    $rows = [];
    for ($size = 0, $id = 1; $size < $bytes; $id++) {
        $row = [
            'id' => $id, 'name' => "Zoë Example $id", 'score' => $id * 0.37, 'active' => $id % 3 === 0, 'note' => null,
            'tags' => ['alpha', 'beta', "tag-$id"], 'place' => ['city' => 'Göttingen', 'lat' => 51.54 + $id / 1e4, 'lon' => 9.92],
        ];
        $rows[] = $row;
        $size += strlen((string) json_encode($row));
    }
    return ['content' => [['type' => 'text', 'text' => count($rows) . ' rows']], 'structuredContent' => ['rows' => $rows]];
}

/** Returns a tool result with one long text, like the result of a tool that reads a file. */
function prose(int $bytes): array
{
    $line = "The \"quick\" brown fox\tjumps over the lazy dog; größer als sonst.\n";
    return ['content' => [['type' => 'text', 'text' => str_repeat($line, max(1, intdiv($bytes, strlen($line))))]], 'isError' => false];
}

/** @return float seconds of the fastest of the rounds */
function fastest(callable $run, int $repeat, float &$fastest): void
{
    $start = hrtime(true);
    for ($i = 0; $i < $repeat; $i++) {
        $run();
    }
    $fastest = min($fastest, (hrtime(true) - $start) / $repeat / 1e3);
}

printf("%-18s %10s %12s %12s %7s\n", 'value', 'bytes', 'Pillion us', 'json_* us', 'ratio');
foreach (['rows' => rows(...), 'prose' => prose(...)] as $kind => $make) {
    foreach ([1 << 10, 1 << 14, 1 << 17, 1 << 20] as $bytes) {
        $value = $make($bytes);
        $json = json_encode($value, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION);
        if (Pillion\JsonBench::decode($json) !== json_decode($json, true) || json_decode(Pillion\JsonBench::encode($value), true) !== $value) {
            throw new RuntimeException('The two conversions differ');
        }
        $conversions = [
            'decode' => [fn () => Pillion\JsonBench::decode($json), fn () => json_decode($json, true)],
            'encode' => [fn () => Pillion\JsonBench::encode($value), fn () => json_encode($value, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION)],
            'both' => [
                fn () => Pillion\JsonBench::encode(Pillion\JsonBench::decode($json)),
                fn () => json_encode(json_decode($json, true), JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION),
            ],
        ];
        $repeat = max(1, intdiv(1 << 18, $bytes));
        foreach ($conversions as $way => [$convertWithPillion, $convertWithJson]) {
            [$pillionTime, $jsonTime] = [INF, INF];
            for ($round = 0; $round < 40; $round++) {
                fastest($convertWithPillion, $repeat, $pillionTime);
                fastest($convertWithJson, $repeat, $jsonTime);
            }
            printf("%-18s %10d %12.2f %12.2f %7.2f\n", "$kind, $way", strlen($json), $pillionTime, $jsonTime, $pillionTime / $jsonTime);
        }
    }
}
