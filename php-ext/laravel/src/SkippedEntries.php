<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Config\Repository;
use Illuminate\Log\LogManager;
use Pillion\Laravel\Console\TerminalText;
use SensitiveParameterValue;
use Throwable;

/** The tool classes, services and server entries that were skipped because they failed, with the reasons. */
final class SkippedEntries
{
    /** @var array<string, string> */
    private array $reasons = [];

    /**
     * The configuration and the log manager, hidden from dumps because they reference the whole
     * application.
     */
    private readonly SensitiveParameterValue $services;

    public function __construct(Repository $config, LogManager $log)
    {
        $this->services = new SensitiveParameterValue([$config, $log]);
    }

    /**
     * Records a skipped entry. A worker logs the reason once, and again only if the entry has
     * worked since or fails for another reason.
     *
     * @param string $name the name of the class, service or server
     */
    public function add(string $name, Throwable $failure): void
    {
        $reason = $failure->getMessage();
        if (($this->reasons[$name] ?? null) === $reason) {
            return;
        }
        $this->reasons[$name] = $reason;
        [$config, $logManager] = $this->services->getValue();
        $channel = ConfigReader::readLogChannel($config);
        if ($channel !== false) {
            $logManager->channel($channel)->warning('Skipped an entry that failed', ['name' => $name, 'error' => TerminalText::toVisibleLine($reason)]);
        }
    }

    /**
     * Removes the recorded failure of an entry that was created successfully, so that the entry's
     * next failure is logged again.
     */
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
