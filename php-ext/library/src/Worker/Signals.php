<?php

declare(strict_types=1);

namespace Pillion\Worker;

/**
 * Handles SIGTERM and SIGINT while a worker serves, if PHP has pcntl. A second SIGINT (Ctrl-C) has its
 * default effect.
 *
 * @internal
 */
final class Signals
{
    /** @var array<int, callable|int> the previous handlers */
    private array $before = [];
    private bool $wasAsync = false;

    /** @param \Closure(): void $heard */
    public function __construct(\Closure $heard)
    {
        if (!extension_loaded('pcntl')) {
            return;
        }
        $this->wasAsync = pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            $this->before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, static function (int $signal) use ($heard): void {
                $heard();
                if ($signal === SIGINT) {
                    pcntl_signal(SIGINT, SIG_DFL);
                }
            }, restart_syscalls: false);
        }
    }

    public function restore(): void
    {
        foreach ($this->before as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
        if ($this->before !== []) {
            pcntl_async_signals($this->wasAsync);
        }
        $this->before = [];
    }
}
