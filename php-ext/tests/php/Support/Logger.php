<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A PSR-3 logger in memory. */
final class Logger
{
    /** @var list<array{string, string, array<string, mixed>}> level, message and context */
    public array $lines = [];

    /** @param array<string, mixed> $context */
    public function log(mixed $level, string $message, array $context = []): void
    {
        $this->lines[] = [$level, $message, $context];
    }
}
