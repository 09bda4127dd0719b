<?php

declare(strict_types=1);

namespace Pillion\Worker;

/**
 * Handles SIGTERM and SIGINT while a worker serves, if PHP has pcntl. A second SIGINT (Ctrl-C) has its
 * default effect.
 *
 * PHP drops an asynchronous signal that arrives in a built-in function that then throws, for example because
 * the signal interrupted its system call (php/php-src#23624). The worker therefore runs the handlers itself,
 * between the steps of its loop. Only a tool runs with asynchronous signals, so that a second SIGINT ends a
 * tool that hangs; SIGTERM, which a supervisor sends once, does not interrupt the system calls of a tool.
 *
 * @internal
 */
final class SignalHandlers
{
    /** @var array<int, callable|int> the previous handlers */
    private array $previousHandlers = [];
    private bool $wasAsync = false;
    private bool $received = false;

    public function install(): void
    {
        if (!extension_loaded('pcntl')) {
            return;
        }
        $this->wasAsync = pcntl_async_signals(false);
        foreach ([SIGTERM, SIGINT] as $signal) {
            $this->previousHandlers[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, function (int $signal): void {
                $this->received = true;
                if ($signal === SIGINT) {
                    pcntl_signal(SIGINT, SIG_DFL);
                }
            }, restart_syscalls: $signal === SIGTERM);
        }
    }

    /** Whether a signal has arrived since {@see install()}. */
    public function received(): bool
    {
        if ($this->previousHandlers !== []) {
            pcntl_signal_dispatch();
        }
        return $this->received;
    }

    /**
     * Runs a tool, which the handlers may interrupt.
     *
     * @template T
     *
     * @param \Closure(): T $tool
     *
     * @return T
     */
    public function interrupting(\Closure $tool): mixed
    {
        if ($this->previousHandlers === []) {
            return $tool();
        }
        pcntl_async_signals(true);
        try {
            return $tool();
        } finally {
            pcntl_async_signals(false);
        }
    }

    public function restore(): void
    {
        foreach ($this->previousHandlers as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
        if ($this->previousHandlers !== []) {
            pcntl_async_signals($this->wasAsync);
        }
        $this->previousHandlers = [];
    }
}
