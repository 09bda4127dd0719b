<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Config\Repository;
use Illuminate\Log\LogManager;
use SensitiveParameterValue;
use Throwable;

/** Tool classes, services and server entries that are left out because nothing could be made of them, and why. */
final class LeftOut
{
    /** @var array<string, string> */
    private array $reasons = [];

    /** Configuration and log, of which no dump of what leads here shows anything. */
    private readonly SensitiveParameterValue $services;

    public function __construct(Repository $config, LogManager $log)
    {
        $this->services = new SensitiveParameterValue([$config, $log]);
    }

    /**
     * Once in the log is enough for a worker, as long as the reason is the same.
     *
     * @param string $name of the class, the service or the server
     */
    public function add(string $name, Throwable $why): void
    {
        $reason = $why->getMessage();
        if (($this->reasons[$name] ?? null) === $reason) {
            return;
        }
        $this->reasons[$name] = $reason;
        [$config, $log] = $this->services->getValue();
        $channel = $config->get('pillion.log.channel');
        if ($channel !== false) {
            $log->channel($channel)->warning('Tools left out', ['of' => $name, 'error' => $reason]);
        }
    }

    /** It could be made after all. */
    public function remove(string $name): void
    {
        unset($this->reasons[$name]);
    }

    /** @return array<string, string> reasons by the name of the class, service or server */
    public function reasons(): array
    {
        return $this->reasons;
    }
}
