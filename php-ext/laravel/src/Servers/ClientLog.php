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
     * Logs a message with control characters escaped: text from servers must not forge log lines,
     * and Laravel's formatter does not escape line breaks in messages and contexts.
     *
     * @param array<string, mixed> $context
     */
    public function log(mixed $level, string|\Stringable $message, array $context = []): void
    {
        $visibleMessage = TerminalText::toVisibleLine((string) $message);
        array_walk_recursive($context, static function (mixed &$value): void {
            $value = is_string($value) ? TerminalText::toVisibleLine($value) : $value;
        });
        $logger = $this->log->getValue();
        assert($logger instanceof LoggerInterface);
        $logger->log($level, $visibleMessage, $context);
    }
}
