<?php

declare(strict_types=1);

namespace Pillion\Worker;

/**
 * Handles SIGTERM and SIGINT while a worker serves, if PHP has pcntl. A second SIGINT (Ctrl-C) has its
 * default effect.
 *
 * @internal
 */
final class SignalHandlers
{
    /** @var array<int, callable|int> the previous handlers */
    private array $previousHandlers = [];
    private bool $wasAsync = false;

    /** @param \Closure(): void $onSignal */
    public function __construct(\Closure $onSignal)
    {
        if (!extension_loaded('pcntl')) {
            return;
        }
        $this->wasAsync = pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            $this->previousHandlers[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, static function (int $signal) use ($onSignal): void {
                $onSignal();
                if ($signal === SIGINT) {
                    pcntl_signal(SIGINT, SIG_DFL);
                }
            }, restart_syscalls: false);
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
