<?php

declare(strict_types=1);

namespace Pillion\Worker;

/**
 * Handles SIGTERM and SIGINT while a worker serves, if PHP has pcntl. A second SIGINT (Ctrl-C) ends
 * the process, which is the signal's default effect.
 *
 * PHP can drop an asynchronous signal: the signal interrupts a system call, the built-in function
 * that made the system call throws an exception, and PHP does not run the handler
 * (php/php-src#23624). Outside of tools, the worker therefore runs the handlers itself, between the
 * steps of its loop.
 *
 * Tools run with asynchronous signals, so that a second SIGINT ends a tool that hangs. SIGTERM,
 * which a supervisor sends once, does not interrupt the system calls of a tool.
 *
 * @internal
 */
final class SignalHandlers
{
    /** @var array<int, callable|int> the previous handlers */
    private array $previousHandlers = [];
    private bool $wasAsync = false;
    private bool $hasReceivedSignal = false;

    public function install(): void
    {
        if (!extension_loaded('pcntl')) {
            return;
        }
        $this->wasAsync = pcntl_async_signals(false);
        foreach ([SIGTERM, SIGINT] as $signal) {
            $this->previousHandlers[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, function (int $signal): void {
                $this->hasReceivedSignal = true;
                if ($signal === SIGINT) {
                    pcntl_signal(SIGINT, SIG_DFL);
                }
            }, restart_syscalls: $signal === SIGTERM);
        }
    }

    /** Returns whether a signal has arrived since {@see install()}. */
    public function hasReceivedSignal(): bool
    {
        if ($this->previousHandlers !== []) {
            pcntl_signal_dispatch();
        }
        return $this->hasReceivedSignal;
    }

    /**
     * Runs a tool, which the handlers may interrupt.
     *
     * @template T
     *
     * @param \Closure(): T $runTool
     *
     * @return T
     */
    public function runInterruptibly(\Closure $runTool): mixed
    {
        if ($this->previousHandlers === []) {
            return $runTool();
        }
        pcntl_async_signals(true);
        try {
            return $runTool();
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
