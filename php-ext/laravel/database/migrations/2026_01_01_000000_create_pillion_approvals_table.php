<?php

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

return new class extends Migration {
    public function up(): void
    {
        Schema::connection(config('pillion.approvals.connection'))
            ->create(config('pillion.approvals.table', 'pillion_approvals'), function (Blueprint $table): void {
                // Made of tenant and id: users of two tenants may have the same key, and so the same call
                // the same id; a digest is compared exactly, whatever the collation of the database.
                $table->string('storage_key', 64)->primary();
                $table->string('id', 64);
                $table->string('tenant')->nullable()->index();
                $table->string('tool', 128);
                $table->longText('arguments');
                $table->string('user')->nullable()->index();
                $table->string('status', 16)->index();
                // Unix time, so that no time zone of the database comes between.
                $table->unsignedBigInteger('created_at');
                $table->unsignedBigInteger('expires_at')->index();
                $table->string('decided_by')->nullable();
                $table->unsignedBigInteger('decided_at')->nullable();
            });
    }

    public function down(): void
    {
        Schema::connection(config('pillion.approvals.connection'))
            ->dropIfExists(config('pillion.approvals.table', 'pillion_approvals'));
    }
};
