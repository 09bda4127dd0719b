<?php

declare(strict_types=1);

namespace Pillion\Laravel\Work;

use Pillion\Laravel\Console\TerminalText;
use Pillion\Laravel\Servers\ClientLog;
use Symfony\Component\Console\Output\OutputInterface;

/** Writes the log of a worker to the terminal and to the log channel of the application's tools. */
final class WorkerLog
{
    public function __construct(private readonly OutputInterface $output, private readonly ?ClientLog $channel)
    {
    }

    /** @param array<string, mixed> $context */
    public function log(string $level, string $message, array $context = []): void
    {
        $contextText = implode(' ', array_map(
            fn (string $key): string => "$key=" . (is_scalar($context[$key]) ? $context[$key] : '?'),
            array_keys($context),
        ));
        $line = TerminalText::escapeLine(sprintf('[%s] %s', date('Y-m-d H:i:s'), rtrim("$message $contextText")));
        $this->output->writeln($level === 'info' ? $line : "<comment>$line</comment>");
        $this->channel?->log($level, $message, $context);
    }
}
