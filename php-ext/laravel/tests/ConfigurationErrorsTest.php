<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Chat\ChatConfig;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Tests\Support\Expect;
use Symfony\Component\Console\Exception\InvalidOptionException;

/** A mistake in the configuration or in an option stops the application or the call. */
final class ConfigurationErrorsTest extends TestCase
{
    /**
     * @dataProvider settingsThatOpen
     *
     * @param array<string, mixed> $settings
     */
    #[DataProvider('settingsThatOpen')]
    public function test_no_call_runs_with_a_mistake_made_at_run_time(array $settings, string $key): void
    {
        config(['pillion' => $settings + config('pillion')]);
        foreach ([fn () => Pillion::call('get_time'), fn () => Pillion::forModel(['function_calling' => true])->names(), fn () => Pillion::approvals()] as $use) {
            $this->app->forgetScopedInstances();
            Pillion::clearResolvedInstances();
            Expect::exception(InvalidInputException::class, $use, "pillion.$key");
        }
    }

    /** @return array<string, array{array<string, mixed>, string}> */
    public static function settingsThatOpen(): array
    {
        return [
            'a misspelled group' => [['approval' => ['policy' => 'always-ask']], "approval is unknown: expected one of servers, tools, models, model_lists, default_model, chat, approvals, limits, cache, sidecar, console, log, disconnect_on_terminate; did you mean 'approvals'?"],
            'a capital' => [['Approvals' => ['policy' => 'always-ask']], 'Approvals is unknown'],
            'a group that is null' => [['approvals' => null], 'approvals must be an array, not null'],
            'a setting without its group' => [['policy' => 'always-ask'], "policy is unknown: expected one of servers, tools, models, model_lists, default_model, chat, approvals, limits, cache, sidecar, console, log, disconnect_on_terminate; did you mean 'pillion.approvals.policy'?"],
            'another misspelled group' => [['limit' => ['max_calls' => 1]], 'limit is unknown'],
            'a misspelled list' => [['tools' => ['builtin' => []]], "tools.builtin is unknown: expected one of discover, classes, builtins, services, aliases; did you mean 'builtins'?"],
            'a list that is null' => [['tools' => ['builtins' => null]], 'tools.builtins must be an array, true or false, not null'],
            'a rate limit' => [['limits' => ['rate_limits' => null]], 'limits.rate_limits must be an array, not null'],
            'a chat option' => [['chat' => ['options' => ['max_tool_calls' => null]]], 'chat.options.max_tool_calls must be a whole number, at least 0, not null'],
        ];
    }

    /**
     * @dataProvider settingsThatOpen
     *
     * @param array<string, mixed> $settings
     */
    #[DataProvider('settingsThatOpen')]
    public function test_no_application_starts_with_a_mistake_in_its_file_or_its_cached_configuration(array $settings, string $key): void
    {
        $this->folder->write('config/pillion.php', '<?php return ' . var_export($settings, true) . ';');
        $this->assertStartFails("pillion.$key");

        // The configuration was cached by an earlier version.
        $this->folder->write('config/pillion.php', '<?php return [];');
        Laravel::artisan($this->folder->path, 'config:cache');
        $file = $this->folder->path . '/bootstrap/cache/config.php';
        $cached = require $file;
        file_put_contents($file, '<?php return ' . var_export(['pillion' => $settings + $cached['pillion']] + $cached, true) . ';');
        $this->assertStartFails("pillion.$key");
        $this->assertStartFails("(cached: delete $file after the correction)");
    }

    public function test_variables_that_are_unset_or_empty_keep_their_meaning(): void
    {
        $names = ['PILLION_CHAT_MODEL', 'PILLION_APPROVALS_STORE', 'PILLION_APPROVALS_CONNECTION', 'PILLION_CACHE_STORE', 'PILLION_SOCKET', 'PILLION_LOG_CHANNEL'];
        $this->folder->write('.env', implode("\n", array_map(fn (string $name) => "$name=", $names)));
        $code = 'return array_map(fn (string $key) => config("pillion.$key"), ["chat.model", "approvals.store", "approvals.connection", "cache.store", "sidecar.socket", "log.channel"]);';
        self::assertSame(array_fill(0, 6, ''), Laravel::evaluate($this->folder->path, $code));
        $code = 'Pillion\Laravel\Facades\Pillion::approvals()->pending(); return app(Pillion\Laravel\Chat\ChatConfig::class)->defaultModel();';
        self::assertNull(Laravel::evaluate($this->folder->path, $code));
        foreach (['PILLION_APPROVALS' => 'approvals.policy', 'PILLION_APPROVALS_DRIVER' => 'approvals.driver', 'PILLION_CHAT_IN' => 'chat.in', 'PILLION_LOG_LEVEL' => 'log.level'] as $name => $key) {
            $this->folder->write('.env', "$name=\n");
            $this->assertStartFails("pillion.$key must be ");
        }
    }

    public function test_null_is_no_option_in_place_of_a_setting(): void
    {
        $uses = [
            "executor option 'approvals'" => fn () => Pillion::executor(['approvals' => null]),
            "executor option 'timeout'" => fn () => Pillion::executor(['before' => null, 'timeout' => null]),
            "executor option 'max_output_bytes'" => fn () => Pillion::executor(['max_output_bytes' => null]),
            "chat option 'enable_tools'" => fn () => $this->app->make(ChatConfig::class)->options(['enable_tools' => null]),
            "chat option 'max_tool_calls'" => fn () => $this->app->make(ChatConfig::class)->options(['max_tool_calls' => null]),
        ];
        foreach ($uses as $option => $use) {
            $e = Expect::exception(InvalidInputException::class, $use(...), failure: "Accepted: $option");
            self::assertSame("Invalid $option: it must not be null", $e->getMessage());
        }
        Pillion::executor(['approve' => null, 'before' => null]);
    }

    public function test_users_do_not_share_credentials_because_of_a_misspelled_server(): void
    {
        $this->configure(['servers' => ['tracker' => ['url' => 'http://127.0.0.1:9/mcp', 'token' => 'shared'], 'wiki' => ['url' => 'http://127.0.0.1:9/mcp']], 'log.channel' => false]);
        foreach (['trackr', 'Tracker', 'not_here'] as $name) {
            Pillion::authenticateUsing($name, fn () => 'own');
        }
        self::assertFalse(Pillion::registry()->has('tracker_search'));
        self::assertStringContainsString("authenticateUsing() names the server 'trackr'", Pillion::skipped()['tracker']);
        self::assertStringNotContainsString('authenticateUsing', Pillion::skipped()['wiki']);
        $this->expectExceptionMessage("did you mean 'tracker'?");
        Pillion::server('tracker')->listTools();
    }

    public function test_an_option_of_a_command_is_not_empty(): void
    {
        foreach (['pillion:call get_time --user=', 'pillion:approvals --tenant=', 'pillion:approvals --user=', 'pillion:approvals approve x --by=', 'pillion:tools --model=', 'pillion:probe dice --user=', 'pillion:work --name='] as $command) {
            Expect::exception(InvalidOptionException::class, fn () => $this->artisanOutput($command), 'must not be empty');
        }
        self::assertSame(0, $this->artisanOutput('pillion:call get_time --user=alice')[0]);
    }

    public function test_only_one_class_reads_the_configuration(): void
    {
        $readers = [];
        foreach (new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator(__DIR__ . '/../src', \FilesystemIterator::SKIP_DOTS)) as $file) {
            if (preg_match('/[\'"]pillion[.\'"][^\n]*[,)]/', self::codeOf($file->getPathname())) === 1) {
                $readers[] = $file->getFilename();
            }
        }
        sort($readers);
        self::assertSame(['ConfigReader.php', 'PillionServiceProvider.php'], $readers);
    }

    private static function codeOf(string $file): string
    {
        $lines = preg_grep('/->(get|has)\(/', explode("\n", (string) file_get_contents($file)));
        return implode("\n", $lines);
    }

    /** Runs a command, and asserts that the application does not start because of this error. */
    private function assertStartFails(string $message): void
    {
        // The error is printed in lines of 80 characters.
        $printed = preg_replace('/\s+/', '', Laravel::artisan($this->folder->path, 'list'));
        self::assertStringContainsString(preg_replace('/\s+/', '', $message), $printed);
        self::assertStringNotContainsString('Availablecommands', $printed);
    }
}
