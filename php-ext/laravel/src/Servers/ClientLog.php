<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

use Pillion\Laravel\Console\TerminalText;
use Psr\Log\LoggerInterface;
use SensitiveParameterValue;

/** The logger of a client, hidden from dumps of the client. */
final class ClientLog
{
    private readonly SensitiveParameterValue $log;

    public function __construct(LoggerInterface $log)
    {
        $this->log = new SensitiveParameterValue($log);
    }

    /**
     * Logs a message with control characters escaped: texts of servers must not forge other lines,
     * and Laravel's formatter does not escape line breaks of messages and contexts.
     *
     * @param array<string, mixed> $context
     */
    public function log(mixed $level, string|\Stringable $message, array $context = []): void
    {
        $message = TerminalText::visibleLine((string) $message);
        array_walk_recursive($context, static function (mixed &$value): void {
            $value = is_string($value) ? TerminalText::visibleLine($value) : $value;
        });
        $log = $this->log->getValue();
        assert($log instanceof LoggerInterface);
        $log->log($level, $message, $context);
    }
}
