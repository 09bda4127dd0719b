<?php

declare(strict_types=1);

namespace Pillion\Laravel\Servers;

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

    /** @param array<string, mixed> $context */
    public function log(mixed $level, string|\Stringable $message, array $context = []): void
    {
        $log = $this->log->getValue();
        assert($log instanceof LoggerInterface);
        $log->log($level, $message, $context);
    }
}
